/** One run that is shown by itself, in a cell or a view: read once, then moved by events. */
import { Signal } from '@lumino/signaling';
import type { Event, Job } from '../gen/loam/jobs/v1/jobs_pb';
import type { GetResponse } from '../gen/loam/jobs/v1/service_pb';
import { Jobs } from '../gen/loam/jobs/v1/service_pb';
import type { Call } from './call';
import { LoamError } from './call';
import { applyEvent, isStale } from './reducer';
import { EventKind } from '../gen/loam/jobs/v1/jobs_pb';
import { Throttle } from './throttle';

export class Followed {
  readonly changed = new Signal<this, void>(this);
  detail: GetResponse | null = null;
  job: Job | null = null;
  /** Why it cannot be shown; `isUnknown` where the server does not know it. */
  error = '';
  isUnknown = false;
  holders = 0;
  private _waiting: Event[] = [];
  private readonly _read: Throttle;

  constructor(
    readonly id: string,
    call: Call,
    isHidden: () => boolean
  ) {
    this._read = new Throttle(
      async () => {
        this._waiting = [];
        try {
          this._take(await call(Jobs.method.get, { jobId: id }));
        } catch (error) {
          this.error = error instanceof Error ? error.message : String(error);
          this.isUnknown = error instanceof LoamError && ['not_found', 'invalid_argument'].includes(error.code);
        }
        this.changed.emit();
      },
      200,
      isHidden
    );
    this._read.soon();
  }

  apply(event: Event): void {
    this._waiting.push(event);
    if (this.job) {
      const after = applyEvent(this.job, event);
      if (after !== this.job) {
        this.job = after;
        this.changed.emit();
      }
    }
    if (isStale(event) || event.kind === EventKind.TABLE_WRITTEN) {
      this._read.soon();
    }
  }

  soon(): void {
    this._read.soon();
  }

  wake(): void {
    this._read.wake();
  }

  dispose(): void {
    this._read.dispose();
    Signal.clearData(this);
  }

  /** A fresh look, with the events that came while it was on its way. */
  private _take(detail: GetResponse): void {
    this.detail = detail;
    this.error = '';
    this.isUnknown = false;
    let job = detail.job ? { ...detail.job, position: detail.position } : null;
    for (const event of this._waiting) {
      job = job && applyEvent(job, event);
    }
    this.job = job;
  }
}
