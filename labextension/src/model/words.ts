/** How runs read: times, lengths, sizes, and text that can do nothing. The words of states are in state.ts. */

/** The part of Jupyter's translation bundle that is used. */
export interface Trans {
  __(text: string, ...values: unknown[]): string;
  _n(one: string, many: string, count: number, ...values: unknown[]): string;
}

/** A length of time, as precise as it is useful: 38 ms, 4.2 s, 3 min 05 s, 2 h 10 min. */
export function duration(ms: number): string {
  if (ms < 1_000) {
    return `${Math.max(0, Math.round(ms))} ms`;
  }
  if (ms < 60_000) {
    return `${(ms / 1000).toFixed(1)} s`;
  }
  const seconds = Math.floor(ms / 1000);
  if (seconds < 3_600) {
    return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  }
  return `${Math.floor(seconds / 3600)} h ${two(Math.floor((seconds % 3600) / 60))} min`;
}

/** A length that counts up or down on screen: whole seconds. */
export function whole(ms: number): string {
  return ms < 60_000 ? `${Math.max(0, Math.round(ms / 1000))} s` : duration(ms);
}

/** How long ago, short: now, 41 s, 4 min, 2 h, 3 d. */
export function age(atMs: number, nowMs: number): string {
  const seconds = Math.floor(Math.max(0, nowMs - atMs) / 1000);
  if (seconds < 2) {
    return 'now';
  }
  for (const [size, unit] of [
    [86_400, 'd'],
    [3_600, 'h'],
    [60, 'min']
  ] as const) {
    if (seconds >= size) {
      return `${Math.floor(seconds / size)} ${unit}`;
    }
  }
  return `${seconds} s`;
}

/** The same in a sentence: just now, 4 min ago. */
export function ago(atMs: number, nowMs: number, trans: Trans): string {
  const passed = age(atMs, nowMs);
  return passed === 'now' ? trans.__('just now') : trans.__('%1 ago', passed);
}

// Made once: it costs more than all the rest of a row.
const ZONED = new Intl.DateTimeFormat('en', { timeZoneName: 'short' });

/** An instant in the viewer's zone, with the zone. */
export function instant(atMs: number): string {
  if (!atMs) {
    return '';
  }
  const zone = ZONED.formatToParts(atMs).find(part => part.type === 'timeZoneName')?.value;
  return `${day(atMs)} ${clock(atMs)} ${zone ?? ''}`.trim();
}

/** 2027-03-25, in the viewer's zone. */
export function day(atMs: number): string {
  const at = new Date(atMs);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** 10:39:52, in the viewer's zone. */
export function clock(atMs: number): string {
  const at = new Date(atMs);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** Bytes in the unit that reads best: 812 B, 4.2 kB. */
export function size(count: number): string {
  let amount = count;
  for (const unit of ['B', 'kB', 'MB', 'GB']) {
    if (amount < 1000) {
      return unit === 'B' ? `${Math.round(amount)} B` : `${amount.toFixed(1)} ${unit}`;
    }
    amount /= 1000;
  }
  return `${amount.toFixed(1)} TB`;
}

/** 1,234,567 */
export function count(value: number | bigint): string {
  return value.toLocaleString('en');
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

/** A piece of text: as it is, or a control character spelled out. */
export interface Piece {
  text: string;
  escaped: boolean;
}

// Control characters, and those that turn the direction of what follows or cannot be seen.
const ODD =
  // eslint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const ODD_OR_LINES = new RegExp(`${ODD.source}|[\\n\\t]`, 'g');

/** Text in pieces, control characters and direction marks spelled out; \n and \t stay where `lines` says so. */
export function pieces(text: string, options: { lines?: boolean; most?: number } = {}): Piece[] {
  const { lines = false, most = 2_000 } = options;
  const cut = text.length > most ? text.slice(0, most) : text;
  const found: Piece[] = [];
  let at = 0;
  for (const match of cut.matchAll(lines ? ODD : ODD_OR_LINES)) {
    if (match.index > at) {
      found.push({ text: cut.slice(at, match.index), escaped: false });
    }
    found.push({ text: spelled(match[0]), escaped: true });
    at = match.index + match[0].length;
  }
  if (at < cut.length) {
    found.push({ text: cut.slice(at), escaped: false });
  }
  if (cut.length < text.length) {
    found.push({ text: `… ${size(text.length)}`, escaped: true });
  }
  return found;
}

/** The same as one string, for attributes. */
export function plain(text: string, options: { lines?: boolean; most?: number } = {}): string {
  return pieces(text, options)
    .map(piece => piece.text)
    .join('');
}

function spelled(character: string): string {
  const code = character.charCodeAt(0);
  if (character === '\n') {
    return '\\n';
  }
  if (character === '\t') {
    return '\\t';
  }
  return code < 256 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
}
