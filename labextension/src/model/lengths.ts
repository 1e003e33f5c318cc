/** Lengths of time as people type them: 90 s, 30 min, 2 h, 1 d. */

const UNITS: readonly [string, number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
  ['ms', 1]
];
const ALSO: Record<string, string> = { m: 'min', sec: 's', hour: 'h', hours: 'h', day: 'd', days: 'd', minutes: 'min' };

/** Milliseconds; 0 for nothing; null where the text is no length. */
export function lengthOf(text: string): number | null {
  const typed = text.trim().toLowerCase();
  if (!typed || typed === '0') {
    return 0;
  }
  const match = /^(\d+(?:\.\d+)?)\s*([a-z]+)$/.exec(typed);
  const unit = match && UNITS.find(([name]) => name === (ALSO[match[2]] ?? match[2]));
  return match && unit ? Math.round(Number(match[1]) * unit[1]) : null;
}

/** The same length in the largest unit that says it exactly; '' for none. */
export function lengthText(ms: number): string {
  if (!ms) {
    return '';
  }
  const unit = UNITS.find(([, size]) => ms % size === 0) ?? UNITS[UNITS.length - 1];
  return `${ms / unit[1]} ${unit[0]}`;
}
