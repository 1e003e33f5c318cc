/** What a run printed and displayed, as lines of text. */
import type { Output } from '../gen/loam/jobs/v1/service_pb';

export interface Line {
  text: string;
  kind: 'out' | 'err' | 'error' | 'display';
  epoch: bigint;
}

const MOST_LINES = 20_000;
const MOST_LINE = 20_000;
// eslint-disable-next-line no-control-regex
const COLOUR = /\u001b\[[0-9;]*m/g;

/** Lines that grow; a stream's text goes on in its last line. Colours of terminals are left out, the rest is spelled. */
export class Log {
  lines: readonly Line[] = [];
  /** Lines at the beginning that were let go. */
  dropped = 0;
  after = 0n;
  private _isOpen = false;

  add(outputs: readonly Output[], next: bigint): void {
    const lines = [...this.lines];
    for (const output of outputs) {
      for (const said of linesOf(output.output)) {
        const last = lines[lines.length - 1];
        if (this._isOpen && last && last.kind === said.kind && last.epoch === output.epoch) {
          lines[lines.length - 1] = { ...last, text: cut(last.text + said.text) };
        } else if (said.text || said.isEnded) {
          lines.push({ text: cut(said.text), kind: said.kind, epoch: output.epoch });
        } else {
          continue;
        }
        this._isOpen = !said.isEnded;
      }
    }
    const over = Math.max(0, lines.length - MOST_LINES);
    this.dropped += over;
    this.lines = over ? lines.slice(over) : lines;
    this.after = next;
  }
}

interface Said {
  text: string;
  kind: Line['kind'];
  isEnded: boolean;
}

/** The lines of one nbformat output; nonsense is shown as it came. */
export function linesOf(bytes: Uint8Array): Said[] {
  const raw = new TextDecoder().decode(bytes);
  let output: unknown;
  try {
    output = JSON.parse(raw);
  } catch {
    return split(raw, 'out', true);
  }
  const said = (typeof output === 'object' && output !== null ? output : {}) as Record<string, unknown>;
  switch (said.output_type) {
    case 'stream':
      return split(joined(said.text), said.name === 'stderr' ? 'err' : 'out', false);
    case 'error': {
      const traceback = Array.isArray(said.traceback) ? said.traceback.map(String).join('\n') : '';
      return split(traceback || `${said.ename}: ${said.evalue}`, 'error', true);
    }
    default: {
      const data = (typeof said.data === 'object' && said.data !== null ? said.data : {}) as Record<string, unknown>;
      return split(joined(data['text/plain'] ?? `[${Object.keys(data).join(', ')}]`), 'display', true);
    }
  }
}

function split(text: string, kind: Line['kind'], isWhole: boolean): Said[] {
  const lines = text.replace(COLOUR, '').split('\n');
  const isEnded = isWhole || lines[lines.length - 1] === '';
  if (lines[lines.length - 1] === '') {
    lines.pop();
  }
  return lines.map((line, place) => ({
    // What a progress bar overwrote is not kept.
    text: line.replace(/\r$/, '').split('\r').pop() ?? '',
    kind,
    isEnded: place < lines.length - 1 || isEnded
  }));
}

function joined(text: unknown): string {
  return Array.isArray(text) ? text.map(String).join('') : String(text ?? '');
}

function cut(text: string): string {
  return text.length > MOST_LINE ? `${text.slice(0, MOST_LINE)} … ${text.length.toLocaleString('en')} characters` : text;
}

/** The places of the lines that contain a text, whatever its case. */
export function found(lines: readonly Line[], text: string): number[] {
  const wanted = text.toLowerCase();
  return wanted ? lines.flatMap((line, place) => (line.text.toLowerCase().includes(wanted) ? [place] : [])) : [];
}
