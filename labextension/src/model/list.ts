/** The runs of one list as they are known here: pages from the server, events on top. No I/O. */
import type { Event, Job } from '../gen/loam/jobs/v1/jobs_pb';
import type { Filter } from './filter';
import { matches } from './filter';
import { applyEvent, isStale } from './reducer';

export class RunList {
  /** Newest first. Replaced, never changed in place, when its members change. */
  jobs: readonly Job[] = [];
  /** The cursor of the next page; undefined before the first, '' after the last. */
  next: string | undefined;
  /** Runs that may have come into what the filter means: they are to be read. */
  readonly wanted = new Set<string>();
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
    const moved = new Map<string, Job>();
    for (const event of events) {
      const before = moved.get(event.jobId) ?? this.get(event.jobId) ?? event.job;
      if (!before) {
        if (this.filter.state && isStale(event)) {
          this.wanted.add(event.jobId);
        }
        continue;
      }
      const after = applyEvent(before, event);
      if (after !== this.get(event.jobId)) {
        moved.set(event.jobId, after);
        this.wanted.delete(event.jobId);
      }
    }
    const fresh = [...moved.values()].filter(job => !this._places.has(job.id) && this._belongs(job)).reverse();
    const known = [...moved.values()].filter(job => this._places.has(job.id));
    if (known.length) {
      const jobs = [...this.jobs];
      known.forEach(job => (jobs[this.placeOf(job.id)] = job));
      this.jobs = jobs;
    }
    if (fresh.length || !known.every(job => this._belongs(job))) {
      this._set(merged(fresh, this.jobs.filter(job => !moved.has(job.id) || this._belongs(job))));
    }
    return fresh.length + known.length > 0;
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
    this._set(merged([...found.values()].filter(job => this._belongs(job)), kept));
  }

  /** Hand out what is to be read, at most `most` ids. */
  take(most: number): string[] {
    const taken = [...this.wanted].slice(0, most);
    taken.forEach(id => this.wanted.delete(id));
    return taken;
  }

  /** Whether a run is one of the list's; a new one that is older than the last loaded one comes with its page. */
  private _belongs(job: Job): boolean {
    const last = this.jobs[this.jobs.length - 1];
    const isWithin = this._places.has(job.id) || this.next === '' || last === undefined || newestFirst(job, last) <= 0;
    return isWithin && !job.tombstone && matches(job, this.filter);
  }

  private _set(jobs: readonly Job[]): void {
    this.jobs = jobs;
    this._places = new Map(jobs.map((job, place) => [job.id, place]));
  }
}

/** Within a millisecond the server's order holds: the sort is stable, and what is new comes first. */
function merged(fresh: readonly Job[], kept: readonly Job[]): readonly Job[] {
  return fresh.length ? [...fresh, ...kept].sort(newestFirst) : kept;
}

export function newestFirst(a: Job, b: Job): number {
  return Number(b.createdAtMs - a.createdAtMs);
}
