/** Attempts on one axis of time, with the pauses between them. Pure arithmetic for the drawing. */
import type { Attempt, Job } from '../gen/loam/jobs/v1/jobs_pb';
import type { AttemptWord } from './state';
import { attemptWord } from './state';

export interface Lane {
  attempt: Attempt;
  word: AttemptWord;
  /** Of those that count; '' for one that was given back. */
  number: string;
  /** Percent of the axis. */
  left: number;
  width: number;
  waitWidth: number;
  tookMs: number;
}

export interface Timeline {
  fromMs: number;
  toMs: number;
  lanes: Lane[];
  counted: number;
  givenBack: number;
}

export function timeline(job: Job, attempts: readonly Attempt[], nowMs: number): Timeline {
  const from = attempts.length ? Number(attempts[0].startedAtMs) : 0;
  const isLive = attempts.some(attempt => !attempt.endedAtMs);
  const last = Math.max(0, ...attempts.map(attempt => Number(attempt.endedAtMs)));
  const to = Math.max(from + 1, isLive ? nowMs : last, Number(job.finishedAtMs));
  const percent = (ms: number) => (100 * Math.max(0, ms)) / (to - from);
  let counted = 0;
  const lanes = attempts.map((attempt, place) => {
    const word = attemptWord(attempt);
    counted += word === 'given back' ? 0 : 1;
    const start = Number(attempt.startedAtMs);
    const end = Number(attempt.endedAtMs) || Math.max(start, nowMs);
    const next = attempts[place + 1];
    return {
      attempt,
      word,
      number: word === 'given back' ? '' : String(counted),
      left: percent(start - from),
      width: percent(end - start),
      waitWidth: next ? percent(Number(next.startedAtMs) - end) : 0,
      tookMs: end - start
    };
  });
  return { fromMs: from, toMs: to, lanes, counted, givenBack: lanes.length - counted };
}
