/** What one page knows of the loam server: the list of runs, counts, who asks, and runs that are followed one by one. */
import type { DescMessage, DescMethodUnary, MessageShape } from '@bufbuild/protobuf';
import { Signal } from '@lumino/signaling';
import type { Event } from '../gen/loam/jobs/v1/jobs_pb';
import { EventKind } from '../gen/loam/jobs/v1/jobs_pb';
import type { CountsResponse } from '../gen/loam/jobs/v1/service_pb';
import { Jobs } from '../gen/loam/jobs/v1/service_pb';
import type { Call } from './call';
import type { Filter } from './filter';
import { EVERYTHING, asked } from './filter';
import { Followed } from './followed';
import { RunList } from './list';
import { isStale } from './reducer';
import type { ServerState, Stream } from './stream';
import { Throttle } from './throttle';

export type Change = 'runs' | 'counts' | 'server' | 'active' | 'rights' | 'schedules';

const FIRST_PAGE = 60;
const PAGE = 500;
const MOST_REREAD = 200;
const MOST_PLACED = 60;
const MOST_NOTED = 1_000;

export class Loam {
  readonly changed = new Signal<this, Change>(this);
  /** Every event, as it comes. */
  readonly events = new Signal<this, readonly Event[]>(this);
  runs = new RunList(EVERYTHING);
  counts: CountsResponse | null = null;
  actor = '';
  /** Whether this user may change anything; null until it is known. */
  canWrite: boolean | null = null;
  /** The run that the keyboard or the pointer is on. */
  active = '';
  /** The schedule that is chosen in the sidebar. */
  activeSchedule = '';
  /** Who asked a run to stop, of those that were asked while this page was open. */
  readonly cancelledBy = new Map<string, string>();
  /** When what is shown was last true. */
  seenMs = 0;
  error = '';
  private _shared = new Map<string, Promise<unknown>>();
  private _followed = new Map<string, Followed>();
  private _loading: Promise<void> | null = null;
  /** Events that came while pages are on their way: a page may be older than they are. */
  private _during = new Set<Event[]>();
  private _visibleQueued: string[] = [];
  private readonly _reread: Throttle;
  private readonly _replace: Throttle;
  private readonly _recount: Throttle;

  constructor(
    readonly call: Call,
    readonly stream: Stream,
    private readonly _isHidden: () => boolean = () => document.hidden
  ) {
    this._reread = new Throttle(() => this._readAgain(this.runs.take(MOST_REREAD)), 250, _isHidden);
    this._replace = new Throttle(() => this._readAgain(this._visibleQueued.slice(0, MOST_PLACED)), 1_000, _isHidden);
    this._recount = new Throttle(() => this._count(), 1_000, _isHidden);
    stream.onEvents = events => this._heed(events);
    stream.onGap = () => void this.reload();
    stream.onState = state => this._heedState(state);
  }

  get server(): ServerState {
    return this.stream.state;
  }

  /** Read everything anew: the list, the counts, who asks. */
  async reload(): Promise<void> {
    this._followed.forEach(one => one.soon());
    this._recount.soon();
    await this._restart(this.runs.filter);
    if (!this.actor) {
      this.actor = await this.call(Jobs.method.hello, { contract: 'loam.jobs.v1' })
        .then(hello => hello.actor)
        .catch(() => '');
      this.changed.emit('rights');
    }
  }

  async setFilter(filter: Filter): Promise<void> {
    await this._restart(filter);
  }

  setActive(id: string): void {
    if (id !== this.active) {
      this.active = id;
      this.changed.emit('active');
    }
  }

  setActiveSchedule(id: string): void {
    if (id !== this.activeSchedule) {
      this.activeSchedule = id;
      this.changed.emit('active');
    }
  }

  setRights(canWrite: boolean): void {
    this.canWrite = canWrite;
    this.changed.emit('rights');
  }

  /** The next page, if there is one and none is on its way. */
  async more(): Promise<void> {
    if (this._loading || this.runs.next === '' || this.runs.next === undefined) {
      return this._loading ?? undefined;
    }
    await this._load(this.runs, PAGE);
  }

  /** The rows on screen that wait: their places are kept up to date. */
  showQueued(ids: string[]): void {
    if (ids.join() !== this._visibleQueued.join()) {
      this._visibleQueued = ids;
      this._replace.soon();
    }
  }

  /** What several views read at the same time is read once. */
  shared<I extends DescMessage, O extends DescMessage>(method: DescMethodUnary<I, O>): Promise<MessageShape<O>> {
    const key = method.name;
    const under = this._shared.get(key);
    if (under) {
      return under as Promise<MessageShape<O>>;
    }
    const reading = this.call(method);
    this._shared.set(key, reading);
    const forget = () => this._shared.delete(key);
    reading.then(forget, forget);
    return reading;
  }

  /** Follow one run; call `release` when it is no longer shown. */
  follow(id: string): Followed {
    let one = this._followed.get(id);
    if (!one) {
      one = new Followed(id, this.call, this._isHidden);
      this._followed.set(id, one);
    }
    one.holders += 1;
    return one;
  }

  release(one: Followed): void {
    one.holders -= 1;
    if (one.holders <= 0) {
      this._followed.delete(one.id);
      one.dispose();
    }
  }

  /** A run was deleted: there is no event for that. */
  forget(id: string): void {
    this.runs.refresh([id], []);
    this._followed.get(id)?.soon();
    this._recount.soon();
    this.changed.emit('runs');
  }

  /** The page is seen again: catch up with what was put off. */
  wake(): void {
    this._reread.wake();
    this._replace.wake();
    this._recount.wake();
    this._followed.forEach(one => one.wake());
  }

  dispose(): void {
    this.stream.dispose();
    this._reread.dispose();
    this._replace.dispose();
    this._recount.dispose();
    this._followed.forEach(one => one.dispose());
    Signal.clearData(this);
  }

  private async _restart(filter: Filter): Promise<void> {
    const list = new RunList(filter);
    await this._load(list, FIRST_PAGE, () => (this.runs = list));
  }

  private async _load(list: RunList, limit: number, then: () => void = () => undefined): Promise<void> {
    const during: Event[] = [];
    this._during.add(during);
    const loading = this.call(Jobs.method.list, {
      ...asked(list.filter),
      limit,
      after: list.next ?? '',
      positions: list.next === undefined
    }).then(
      page => {
        list.append(page.jobs, page.next);
        list.apply(during);
        this.error = '';
        this.seenMs = Date.now();
        then();
      },
      (error: unknown) => {
        this.error = error instanceof Error ? error.message : String(error);
      }
    );
    this._loading = loading;
    await loading;
    this._during.delete(during);
    if (this._loading === loading) {
      this._loading = null;
    }
    this.changed.emit('runs');
  }

  private _heed(events: readonly Event[]): void {
    this.seenMs = Date.now();
    for (const event of events) {
      if (event.kind === EventKind.CANCEL_REQUESTED) {
        this._note(event);
      }
      this._followed.get(event.jobId)?.apply(event);
    }
    this._during.forEach(kept => kept.push(...events));
    const isChanged = this.runs.apply(events);
    if (events.some(isStale)) {
      this._recount.soon();
      this._replace.soon();
    }
    if (this.runs.wanted.size) {
      this._reread.soon();
    }
    if (isChanged) {
      this.changed.emit('runs');
    }
    if (events.some(event => event.kind === EventKind.SCHEDULE_CHANGED)) {
      this.changed.emit('schedules');
    }
    this.events.emit(events);
  }

  /** Who cancelled, for the last thousand: lists do not say it, only events and Get do. */
  private _note(event: Event): void {
    this.cancelledBy.set(event.jobId, event.actor);
    for (const [oldest] of this.cancelledBy) {
      if (this.cancelledBy.size <= MOST_NOTED) {
        break;
      }
      this.cancelledBy.delete(oldest);
    }
  }

  private _heedState(state: ServerState): void {
    if (state.kind === 'running') {
      this.seenMs = Date.now();
      void this.reload();
    }
    this.changed.emit('server');
  }

  private async _readAgain(ids: string[]): Promise<void> {
    const list = this.runs;
    if (!ids.length) {
      return;
    }
    const page = await this.call(Jobs.method.list, { jobIds: ids, positions: true });
    list.refresh(ids, page.jobs);
    if (list.wanted.size) {
      this._reread.soon();
    }
    if (list === this.runs) {
      this.changed.emit('runs');
    }
  }

  private async _count(): Promise<void> {
    this.counts = await this.call(Jobs.method.counts, {});
    this.changed.emit('counts');
  }
}
