/** What an event does to a run on screen. Pure: the state it names is believed; where that is not all, it carries the run. */
import type { Event, Job } from '../gen/loam/jobs/v1/jobs_pb';
import { EventKind, JobState } from '../gen/loam/jobs/v1/jobs_pb';
import { hasEnded } from './state';

/** The run after an event. Events that come twice, or late after a fresh look, change nothing. */
export function applyEvent(job: Job, event: Event): Job {
  if (event.jobId !== job.id || event.epoch < job.epoch || (hasEnded(job) && !isAfterEnd(event))) {
    return job;
  }
  if (event.job && event.job.epoch >= event.epoch) {
    return { ...event.job, position: job.position };
  }
  const next = { ...job, state: event.state, hold: event.hold, epoch: event.epoch };
  switch (event.kind) {
    case EventKind.PROGRESSED:
      return event.progress ? { ...next, progress: event.progress } : next;
    case EventKind.LEASED:
      return {
        ...next,
        startedAtMs: event.atMs,
        finishedAtMs: 0n,
        attempts: event.epoch > job.epoch ? job.attempts + 1 : job.attempts,
        position: 0
      };
    case EventKind.CANCEL_REQUESTED:
      return { ...next, cancelRequested: true };
    case EventKind.RETRYING:
      return { ...next, runAtMs: event.runAtMs, error: firstLine(event.message) || job.error };
    case EventKind.ENDED:
      return {
        ...next,
        finishedAtMs: event.atMs,
        position: 0,
        error: event.state === JobState.FAILED ? firstLine(event.message) || job.error : job.error
      };
    case EventKind.DISMISSED:
    case EventKind.REDRIVEN:
      return { ...next, deadLetter: false };
    case EventKind.DELETED:
      return { ...next, tombstone: true, deadLetter: false };
    case EventKind.SCHEDULE_CHANGED:
      return job;
    case EventKind.ENQUEUED:
    case EventKind.DUE:
    case EventKind.RESUMED:
    case EventKind.TABLE_WRITTEN:
    case EventKind.GIVEN_BACK:
    case EventKind.LEASE_EXPIRED:
    case EventKind.ATTEMPT_LOST:
    case EventKind.EVENT_KIND_UNSPECIFIED:
      return next;
    default:
      return unknownKind(event.kind, next);
  }
}

/** An outcome is recorded once: what says otherwise is late. */
function isAfterEnd(event: Event): boolean {
  return [EventKind.DISMISSED, EventKind.REDRIVEN, EventKind.DELETED].includes(event.kind);
}

/** Whether more has changed than a run's progress: the page of one run is read again then. */
export function isStale(event: Event): boolean {
  return ![EventKind.PROGRESSED, EventKind.TABLE_WRITTEN, EventKind.SCHEDULE_CHANGED].includes(event.kind);
}

/** A kind of a newer server changes the state; one that was forgotten here does not compile. */
function unknownKind(_kind: never, job: Job): Job {
  return job;
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0];
}
