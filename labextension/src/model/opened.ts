/** What a schedule's form is made from: a file as a job, or a schedule, with the parameters that its notebook declares. */
import { create } from '@bufbuild/protobuf';
import type { JobSpec } from '../gen/loam/jobs/v1/jobs_pb';
import { JobSpecSchema } from '../gen/loam/jobs/v1/jobs_pb';
import type { InspectNotebookResponse, Parameter, Schedule } from '../gen/loam/jobs/v1/schedules_pb';
import { Jobs } from '../gen/loam/jobs/v1/service_pb';
import type { Call } from './call';
import { LoamError } from './call';
import type { Draft, Source } from './draft';
import { belowRoot, draftOf, fresh, withPayload } from './draft';
import { paramsIn } from './schedules';
import { record } from './state';
import type { Trans } from './words';
import { ownZone } from './zone';

export interface Opened {
  schedule: Schedule | null;
  job: JobSpec;
  draft: Draft;
  parameters: readonly Parameter[];
  /** Whether the notebook's parameters could be read; otherwise they are typed as a JSON object. */
  isDeclared: boolean;
  isNotebook: boolean;
  kernel: string;
  /** On the server's disk; '' for what is no file. */
  path: string;
  cwd: string;
  sha256: string;
}

/** The way to files: what one would be as a job. */
export interface Files {
  jobOf(path: string): Promise<JobSpec>;
  rootUri: string;
}

export async function openNew(call: Call, path: string, files: Files): Promise<Opened> {
  const job = await files.jobOf(path);
  const payload = record(job.task?.payload ?? new Uint8Array());
  const isNotebook = payload.kind === 'notebook';
  const content = new TextEncoder().encode(text(payload.source));
  const seen = isNotebook ? await call(Jobs.method.inspectNotebook, { content }) : null;
  return opened(null, job, seen, fresh(job, ownZone()));
}

export async function openOld(call: Call, id: string, files: Files): Promise<Opened> {
  const { schedule } = await call(Jobs.method.getSchedule, { scheduleId: id });
  if (!schedule) {
    throw new LoamError('not_found', id);
  }
  const job = schedule.job ?? create(JobSpecSchema);
  const seen = await inspected(call, schedule, job, files).catch(() => null);
  const draft = draftOf(schedule, seen?.parameters ?? []);
  return opened(schedule, job, seen, draft);
}

/** What the source declares that its next run takes; null where there is none, or none that can be read here. */
async function inspected(call: Call, schedule: Schedule, job: JobSpec, files: Files): Promise<InspectNotebookResponse | null> {
  const payload = record(job.task?.payload ?? new Uint8Array());
  if (payload.kind !== 'notebook') {
    return null;
  }
  if (!schedule.followsFile) {
    return call(Jobs.method.inspectNotebook, { scheduleId: schedule.id });
  }
  const path = belowRoot(text(payload.path), files.rootUri);
  const now = path === null ? null : record((await files.jobOf(path)).task?.payload ?? new Uint8Array());
  return now && call(Jobs.method.inspectNotebook, { content: new TextEncoder().encode(text(now.source)) });
}

function opened(schedule: Schedule | null, job: JobSpec, seen: InspectNotebookResponse | null, draft: Draft): Opened {
  const payload = record(job.task?.payload ?? new Uint8Array());
  const isDeclared = seen !== null && seen.language === 'python';
  const free = Object.entries(paramsIn(payload)).map(([name, value]) => [name, JSON.stringify(value)]);
  return {
    schedule,
    job,
    draft: isDeclared ? draft : { ...draft, params: Object.fromEntries(free) as Draft['params'] },
    parameters: isDeclared ? seen.parameters : [],
    isDeclared,
    isNotebook: payload.kind === 'notebook',
    kernel: text(payload.kernel),
    path: text(payload.path),
    cwd: text(payload.cwd),
    sha256: text(payload.sha256)
  };
}

/** The job to send: over the source that was chosen. What the schedule keeps is named, not sent again. */
export async function sourceFor(job: JobSpec, source: Source, from: Opened, files: Files, trans: Trans): Promise<JobSpec> {
  if (!from.schedule || source !== 'fresh') {
    return job;
  }
  const path = belowRoot(from.path, files.rootUri);
  if (path === null) {
    throw new Error(trans.__('%1 is not below the folder that Lab shows, so it cannot be copied from here', from.path));
  }
  const now = record((await files.jobOf(path)).task?.payload ?? new Uint8Array());
  const mine = record(job.task?.payload ?? new Uint8Array());
  const kept = Object.fromEntries(
    ['params', 'kernel', 'cell_limit_s', 'cwd', 'env', 'secrets'].filter(name => name in mine).map(name => [name, mine[name]])
  );
  return create(JobSpecSchema, { ...job, task: withPayload(job, { ...now, ...kept }) });
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
