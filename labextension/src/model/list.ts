/** The runs of one list as they are known here: pages from the server, events on top. No I/O. */
import type { Event, Job } from '../gen/loam/jobs/v1/jobs_pb';
import { EventKind } from '../gen/loam/jobs/v1/jobs_pb';
import type { Filter } from './filter';
import { matches } from './filter';
import { applyEvent, isStale } from './reducer';

/** What is to be read: runs that are new, and runs of which events said not all. */
export interface Wanted {
  fresh: Set<string>;
  stale: Set<string>;
}

export class RunList {
  /** Newest first. Replaced, never changed in place, when its members change. */
  jobs: readonly Job[] = [];
  /** The cursor of the next page; undefined before the first, '' after the last. */
  next: string | undefined;
  readonly wanted: Wanted = { fresh: new Set(), stale: new Set() };
  private _places = new Map<string, number>();

  constructor(readonly filter: Filter) {}

  get(id: string): Job | undefined {
    const place = this._places.get(id);
    return place === undefined ? undefined : this.jobs[place];
  }

  placeOf(id: string): number {
    return this._places.get(id) ?? -1;
  }

  /** Put a page at the end. */
  append(page: readonly Job[], next: string): void {
    this._set([...this.jobs, ...page.filter(job => !this._places.has(job.id))]);
    this.next = next;
  }

  /** Heed events. Answers whether anything on screen changed. */
  apply(events: readonly Event[]): boolean {
    let jobs: Job[] | undefined;
    for (const event of events) {
      const place = this._places.get(event.jobId);
      if (place === undefined) {
        // A run that is not here may have come into what the list shows.
        if (event.kind === EventKind.ENQUEUED || (this.filter.state && isStale(event))) {
          this.wanted.fresh.add(event.jobId);
        }
        continue;
      }
      const before = (jobs ?? this.jobs)[place];
      const after = applyEvent(before, event);
      if (after !== before) {
        jobs ??= [...this.jobs];
        jobs[place] = after;
      }
      if (isStale(event)) {
        this.wanted.stale.add(event.jobId);
      }
    }
    if (jobs) {
      this.jobs = jobs;
    }
    return jobs !== undefined;
  }

  /** Runs that were read again; `asked` are the ids that were asked for: those without an answer are gone. */
  refresh(asked: readonly string[], answers: readonly Job[]): void {
    const found = new Map(answers.map(job => [job.id, job]));
    const gone = new Set(asked.filter(id => !found.has(id)));
    const kept: Job[] = [];
    for (const job of this.jobs) {
      const again = found.get(job.id);
      found.delete(job.id);
      const now = again && again.epoch >= job.epoch ? again : job;
      if (!gone.has(job.id) && (!again || matches(now, this.filter))) {
        kept.push(now);
      }
    }
    const fresh = [...found.values()].filter(job => matches(job, this.filter) && this._isWithin(job, kept));
    // Within a millisecond the server's order holds: the sort is stable, and what is new comes first.
    this._set(fresh.length ? [...fresh, ...kept].sort(newestFirst) : kept);
  }

  /** Hand out what is to be read, at most `most` ids. */
  take(most: number): string[] {
    const taken: string[] = [];
    for (const set of [this.wanted.fresh, this.wanted.stale]) {
      for (const id of set) {
        if (taken.length === most) {
          return taken;
        }
        taken.push(id);
        set.delete(id);
      }
    }
    return [...new Set(taken)];
  }

  /** Older than the last loaded one: it comes with its page. */
  private _isWithin(job: Job, kept: readonly Job[]): boolean {
    const last = kept[kept.length - 1];
    return this.next === '' || last === undefined || newestFirst(job, last) <= 0;
  }

  private _set(jobs: readonly Job[]): void {
    this.jobs = jobs;
    this._places = new Map(jobs.map((job, place) => [job.id, place]));
  }
}

export function newestFirst(a: Job, b: Job): number {
  return Number(b.createdAtMs - a.createdAtMs);
}
