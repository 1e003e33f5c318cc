/** Which runs a list shows: what the server is asked, and the same rule for runs that come by event. */
import type { Job } from '../gen/loam/jobs/v1/jobs_pb';
import { JobState } from '../gen/loam/jobs/v1/jobs_pb';
import type { Word } from './state';
import { wordOf } from './state';

/** The header that a schedule's runs carry. */
const SCHEDULE = 'loam.schedule';

/** The schedule that made a run; '' for none. */
export function scheduleOf(job: Job): string {
  return job.headers[SCHEDULE] ?? '';
}

/** The words by which the sidebar filters. */
export type StateFilter = Extract<Word, 'running' | 'queued' | 'retrying' | 'scheduled' | 'failed' | 'dead letter'>;

export interface Filter {
  text: string;
  state: StateFilter | '';
  engine: string;
  queue: string;
  tag: string;
  actor: string;
  /** The id of a schedule, and its name for people. */
  schedule: string;
  scheduleName: string;
}

export const EVERYTHING: Filter = { text: '', state: '', engine: '', queue: '', tag: '', actor: '', schedule: '', scheduleName: '' };

const ASKED: Record<StateFilter, JobState[]> = {
  running: [JobState.RUNNING],
  queued: [JobState.READY],
  retrying: [JobState.SCHEDULED],
  scheduled: [JobState.SCHEDULED],
  failed: [JobState.FAILED],
  'dead letter': [JobState.FAILED]
};

/** The filter as List takes it. */
export function asked(filter: Filter): {
  text: string;
  engine: string;
  queue: string;
  tag: string;
  actor: string;
  scheduleId: string;
  states: JobState[];
  deadLetters: boolean;
} {
  const { state, schedule, text, engine, queue, tag, actor } = filter;
  return {
    text,
    engine,
    queue,
    tag,
    actor,
    scheduleId: schedule,
    states: state ? ASKED[state] : [],
    deadLetters: state === 'dead letter'
  };
}

/** Whether a run belongs to the list. */
export function matches(job: Job, filter: Filter): boolean {
  return (
    (!filter.text || (job.task?.name ?? '').toLowerCase().includes(filter.text.toLowerCase())) &&
    (!filter.engine || job.task?.engine === filter.engine) &&
    (!filter.queue || job.queue === filter.queue) &&
    (!filter.tag || job.tags.includes(filter.tag)) &&
    (!filter.schedule || scheduleOf(job) === filter.schedule) &&
    (!filter.actor || job.actor === filter.actor) &&
    (!filter.state || fits(wordOf(job), filter.state))
  );
}

function fits(word: Word, state: StateFilter): boolean {
  switch (state) {
    case 'running':
      return word === 'running' || word === 'stalled' || word === 'cancelling';
    case 'failed':
      return word === 'failed' || word === 'dead letter';
    default:
      return word === state;
  }
}

export function isEmpty(filter: Filter): boolean {
  return !Object.values(filter).some(Boolean);
}
