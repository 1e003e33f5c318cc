/** The socket of events: goes on after the last cursor, comes back by itself, hands over once a frame. */
import { fromBinary } from '@bufbuild/protobuf';
import type { Event } from '../gen/loam/jobs/v1/jobs_pb';
import { WatchResponseSchema } from '../gen/loam/jobs/v1/service_pb';

export type ServerState =
  | { kind: 'connecting' }
  | { kind: 'running' }
  | { kind: 'lost'; message: string; nextAtMs: number; sinceMs: number };

export interface StreamOptions {
  /** The address of the socket, with the cursor to go on from. */
  url: (since: string) => string;
  open?: (url: string) => WebSocket;
  now?: () => number;
  random?: () => number;
  /** Call soon, at most once a frame. */
  soon?: (run: () => void) => void;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;

export class Stream {
  onEvents: (events: readonly Event[]) => void = () => undefined;
  /** Events were missed: read the state anew. */
  onGap: () => void = () => undefined;
  onState: (state: ServerState) => void = () => undefined;
  state: ServerState = { kind: 'connecting' };
  private _cursor = '';
  private _socket: WebSocket | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _tries = 0;
  private _waiting: Event[] = [];
  private _isDisposed = false;
  private readonly _options: Required<StreamOptions>;

  constructor(options: StreamOptions) {
    this._options = {
      open: url => new WebSocket(url),
      now: () => Date.now(),
      random: () => Math.random(),
      soon: nextFrame,
      ...options
    };
  }

  get cursor(): string {
    return this._cursor;
  }

  connect(): void {
    clearTimeout(this._timer);
    if (this._isDisposed) {
      return;
    }
    const socket = this._options.open(this._options.url(this._cursor));
    socket.binaryType = 'arraybuffer';
    this._socket = socket;
    socket.onmessage = message => {
      if (socket === this._socket) {
        this._heed(message.data);
      }
    };
    socket.onclose = () => {
      if (socket === this._socket) {
        this._socket = null;
        this._again();
      }
    };
  }

  /** Do not wait for the next try. */
  retry(): void {
    if (!this._socket) {
      this._tries = 0;
      this.connect();
    }
  }

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._timer);
    this._socket?.close();
    this._socket = null;
  }

  private _heed(data: unknown): void {
    this._tries = 0;
    if (typeof data === 'string') {
      this._heedState(data);
      return;
    }
    const told = fromBinary(WatchResponseSchema, new Uint8Array(data as ArrayBuffer));
    this._cursor = told.cursor || this._cursor;
    if (told.gap) {
      this._waiting = [];
      this.onGap();
    }
    if (told.events.length) {
      const first = !this._waiting.length;
      this._waiting.push(...told.events);
      if (first) {
        this._options.soon(() => this._hand());
      }
    }
  }

  private _hand(): void {
    const events = this._waiting;
    this._waiting = [];
    if (events.length && !this._isDisposed) {
      this.onEvents(events);
    }
  }

  private _heedState(text: string): void {
    const told = JSON.parse(text) as { server: string; message?: string; next_ms?: number };
    if (told.server === 'lost') {
      this._lost(told.message ?? '', told.next_ms ?? 0);
    } else {
      this._set(told.server === 'running' ? { kind: 'running' } : { kind: 'connecting' });
    }
  }

  private _again(): void {
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this._tries) * (0.75 + this._options.random() / 2);
    this._tries += 1;
    this._lost('', pause);
    this._timer = setTimeout(() => this.connect(), pause);
  }

  private _lost(message: string, pauseMs: number): void {
    const now = this._options.now();
    const sinceMs = this.state.kind === 'lost' ? this.state.sinceMs : now;
    this._set({ kind: 'lost', message, nextAtMs: now + pauseMs, sinceMs });
  }

  private _set(state: ServerState): void {
    this.state = state;
    this.onState(state);
  }
}

/** Once a frame; a hidden page has none, so a timer helps out. */
export function nextFrame(run: () => void): void {
  let isDone = false;
  const once = () => {
    if (!isDone) {
      isDone = true;
      run();
    }
  };
  if (typeof document !== 'undefined' && !document.hidden && typeof requestAnimationFrame === 'function') {
    requestAnimationFrame(once);
  }
  setTimeout(once, 50);
}
