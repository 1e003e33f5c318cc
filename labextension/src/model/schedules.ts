/** How schedules stand in a list, and the parameters that they give. */
import { JobState } from '../gen/loam/jobs/v1/jobs_pb';
import type { Schedule } from '../gen/loam/jobs/v1/schedules_pb';
import type { Word } from './state';
import { wordOf } from './state';

export type ScheduleWord = 'broken' | 'paused' | 'running' | 'queued' | 'scheduled' | 'over';

export const SCHEDULE_GLYPH: Record<ScheduleWord, string> = {
  broken: 'jp-loam-bad',
  paused: 'jp-loam-pause',
  running: 'jp-loam-go spin',
  queued: 'jp-loam-queue',
  scheduled: 'jp-loam-sched',
  over: 'jp-loam-none'
};

export function scheduleWord(one: Schedule): ScheduleWord {
  if (one.broken) {
    return 'broken';
  }
  if (one.paused) {
    return 'paused';
  }
  if (one.waiting) {
    return one.last?.job?.state === JobState.RUNNING ? 'running' : 'queued';
  }
  return one.nextAtMs ? 'scheduled' : 'over';
}

/** The word of a schedule's last run; null before the first. */
export function lastWord(one: Schedule): Word | null {
  return one.last?.job ? wordOf(one.last.job) : null;
}

/** The parameters of a job, whichever engine runs it. */
export function paramsIn(payload: Record<string, unknown>): Record<string, unknown> {
  const found = payload.params ?? payload.arguments;
  return typeof found === 'object' && found !== null ? (found as Record<string, unknown>) : {};
}
