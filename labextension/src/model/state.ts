/** The word and the glyph of where a run stands: the same rules as `loam_lab.cli.words`. */
import type { Attempt, Job, Snapshot } from '../gen/loam/jobs/v1/jobs_pb';
import { AttemptEnd, Hold, JobState } from '../gen/loam/jobs/v1/jobs_pb';

export type Word =
  | 'blocked'
  | 'scheduled'
  | 'queued'
  | 'running'
  | 'retrying'
  | 'stalled'
  | 'cancelling'
  | 'succeeded'
  | 'failed'
  | 'dead letter'
  | 'cancelled'
  | 'unknown';

/** The class of each word's glyph; its shape alone tells it. */
export const GLYPH: Record<Word, string> = {
  blocked: 'jp-loam-block',
  scheduled: 'jp-loam-sched',
  queued: 'jp-loam-queue',
  running: 'jp-loam-go',
  retrying: 'jp-loam-retry',
  stalled: 'jp-loam-warn',
  cancelling: 'jp-loam-stopping',
  succeeded: 'jp-loam-ok',
  failed: 'jp-loam-bad',
  'dead letter': 'jp-loam-dead',
  cancelled: 'jp-loam-cancel',
  unknown: 'jp-loam-none'
};

export function wordOf(job: Job): Word {
  switch (job.state) {
    case JobState.BLOCKED:
      return 'blocked';
    case JobState.SCHEDULED:
      return job.attempts ? 'retrying' : 'scheduled';
    case JobState.READY:
      return 'queued';
    case JobState.RUNNING:
      if (job.cancelRequested) {
        return 'cancelling';
      }
      return job.hold === Hold.NO_HOLD ? 'running' : 'stalled';
    case JobState.SUCCEEDED:
      return 'succeeded';
    case JobState.FAILED:
      return job.deadLetter ? 'dead letter' : 'failed';
    case JobState.CANCELLED:
      return 'cancelled';
    case JobState.JOB_STATE_UNSPECIFIED:
      return 'unknown';
    default:
      return unknownState(job.state);
  }
}

/** A state of a newer server is shown as unknown; one that was forgotten here does not compile. */
function unknownState(_state: never): Word {
  return 'unknown';
}

export function hasEnded(job: Job): boolean {
  return job.state === JobState.SUCCEEDED || job.state === JobState.FAILED || job.state === JobState.CANCELLED;
}

/** How far it is, 0 to 1; undefined where it does not run, or does not say. A lost attempt's progress is not the next one's. */
export function fractionOf(job: Job): number | undefined {
  return job.state === JobState.RUNNING ? job.progress?.fraction : undefined;
}

/** How long the last attempt ran, or runs; 0 before the first. */
export function lengthMs(job: Job, nowMs: number): number {
  const started = Number(job.startedAtMs);
  return started ? Math.max(0, (Number(job.finishedAtMs) || nowMs) - started) : 0;
}

/** What a progress says beside the state and its time, which stand before it: of "running, 41 s, 3 stages" the stages. */
export function newsIn(progress: string): string {
  return progress.replace(/^running(, [^,]*)?(, )?/, '');
}

export type AttemptWord = 'running' | 'succeeded' | 'failed' | 'given back' | 'cancelled' | 'lost';

export function attemptWord(attempt: Attempt): AttemptWord {
  switch (attempt.end) {
    case AttemptEnd.OPEN:
      return 'running';
    case AttemptEnd.ATTEMPT_SUCCEEDED:
      return 'succeeded';
    case AttemptEnd.ATTEMPT_FAILED:
      return 'failed';
    case AttemptEnd.RELEASED:
      return 'given back';
    case AttemptEnd.ATTEMPT_CANCELLED:
      return 'cancelled';
    case AttemptEnd.LOST:
      return 'lost';
    default:
      return forgottenEnd(attempt.end);
  }
}

function forgottenEnd(_end: never): AttemptWord {
  return 'lost';
}

export const ATTEMPT_GLYPH: Record<AttemptWord, string> = {
  running: 'jp-loam-go',
  succeeded: 'jp-loam-ok',
  failed: 'jp-loam-bad',
  'given back': 'jp-loam-cancel',
  cancelled: 'jp-loam-cancel',
  lost: 'jp-loam-lost'
};

/** Rows added and deleted by a snapshot, as far as its summary tells. */
export function rowsOf(snapshot: Snapshot): { added: number; deleted: number } {
  const summary = record(snapshot.summary);
  return { added: Number(summary['added-records'] ?? 0) || 0, deleted: Number(summary['deleted-records'] ?? 0) || 0 };
}

/** A JSON object in bytes; an empty one where there is none. */
export function record(bytes: Uint8Array): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : {};
  } catch {
    return {};
  }
}
