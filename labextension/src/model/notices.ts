/** Which runs are worth a notice. */
import type { Event, Job } from '../gen/loam/jobs/v1/jobs_pb';
import { EventKind, JobState } from '../gen/loam/jobs/v1/jobs_pb';
import { lengthMs } from './state';

export interface NoticeRule {
  onFailure: boolean;
  longMs: number;
}

/** The events of outcomes that have just been recorded (so the last attempt is over), one a run, none of them told before. */
export function endedIn(events: readonly Event[], sinceMs: number, told: ReadonlySet<string>): Event[] {
  const found = events
    .filter(event => event.kind === EventKind.ENDED && Number(event.atMs) >= sinceMs && !told.has(event.jobId))
    .filter(event => event.state !== JobState.CANCELLED);
  return [...new Map(found.map(event => [event.jobId, event])).values()];
}

/** Schedules that have just missed ticks: the event's message says how many. */
export function missedIn(events: readonly Event[], sinceMs: number, told: ReadonlySet<string>): Event[] {
  return events.filter(
    event =>
      event.kind === EventKind.SCHEDULE_CHANGED &&
      event.message.startsWith('missed ') &&
      Number(event.atMs) >= sinceMs &&
      !told.has(event.cursor)
  );
}

/** What to say of an ended run. A short one that failed in a cell has said so there. */
export function noticeOf(job: Job, rule: NoticeRule): 'failed' | 'ended' | null {
  const isLong = rule.longMs > 0 && lengthMs(job, 0) >= rule.longMs;
  if (job.state === JobState.FAILED) {
    return rule.onFailure && (!job.attached || isLong) ? 'failed' : null;
  }
  return job.state === JobState.SUCCEEDED && isLong ? 'ended' : null;
}
