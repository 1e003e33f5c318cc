/** What a schedule's form holds, and the messages it stands for. Pure; the rule itself is checked by the server. */
import type { MessageInitShape } from '@bufbuild/protobuf';
import { create } from '@bufbuild/protobuf';
import type { JobSpec, Task } from '../gen/loam/jobs/v1/jobs_pb';
import { JobSpecSchema, RetryPolicySchema, TaskSchema } from '../gen/loam/jobs/v1/jobs_pb';
import type { Parameter, RuleSchema, Schedule } from '../gen/loam/jobs/v1/schedules_pb';
import { MissedPolicy, NoticeKind, OverlapPolicy } from '../gen/loam/jobs/v1/schedules_pb';
import { lengthOf, lengthText } from './lengths';
import { paramsIn } from './schedules';
import { record } from './state';
import { instantOf, wall } from './zone';

/** A parameter's value that becomes the tick's instant. */
export const SCHEDULED_AT = 'loam.scheduled_at';

export type When = 'cron' | 'every' | 'once';
/** `kept`: the copy that the schedule has; `fresh`: a copy of the file as it is now; `latest`: the file at each run. */
export type Source = 'kept' | 'fresh' | 'latest';

export interface Draft {
  name: string;
  source: Source;
  /** As typed; a parameter that is not named keeps its default. */
  params: Readonly<Record<string, string>>;
  kernel: string;
  when: When;
  cron: string;
  every: string;
  /** Wall times in the zone, separated by commas. */
  once: string;
  zone: string;
  start: string;
  end: string;
  missed: MissedPolicy;
  cap: string;
  lookBack: string;
  overlap: OverlapPolicy;
  jitter: string;
  /** Of so many runs; '' of all. */
  keepOutputs: string;
  retries: string;
  backoff: string;
  timeout: string;
  cellTimeout: string;
  queue: string;
  tags: string;
  on: readonly NoticeKind[];
  webhook: string;
  secret: string;
  mail: string;
}

export type Field = keyof Draft;
export type Problems = Partial<Record<string, string>>;

export const USUAL: readonly NoticeKind[] = [NoticeKind.ON_FAILURE, NoticeKind.ON_RECOVERY, NoticeKind.ON_MISSED];

/** The form of a new schedule. */
export function fresh(job: JobSpec, zone: string): Draft {
  const payload = record(job.task?.payload ?? new Uint8Array());
  return {
    name: (job.task?.name ?? '').replace(/\.\w+$/, ''),
    source: 'fresh',
    params: {},
    kernel: text(payload.kernel),
    when: 'cron',
    cron: '0 6 * * *',
    every: '1 h',
    once: '',
    zone,
    start: '',
    end: '',
    missed: MissedPolicy.MISSED_LATEST,
    cap: '100',
    lookBack: '1 d',
    overlap: OverlapPolicy.OVERLAP_SKIP,
    jitter: '',
    keepOutputs: '',
    retries: '0',
    backoff: '1 s',
    timeout: '',
    cellTimeout: '',
    queue: 'default',
    tags: '',
    on: USUAL,
    webhook: '',
    secret: '',
    mail: ''
  };
}

/** The form of a schedule that there is. */
export function draftOf(one: Schedule, parameters: readonly Parameter[]): Draft {
  const { rule, policy, job, notice } = one;
  const payload = record(job?.task?.payload ?? new Uint8Array());
  const zone = rule?.zone || 'UTC';
  const bound = (ms: bigint | undefined) => (ms ? wall(Number(ms), zone) : '');
  const types = new Map(parameters.map(parameter => [parameter.name, parameter.type]));
  const attempts = job?.retry?.maxAttempts ?? 1;
  return {
    name: one.name,
    source: one.followsFile ? 'latest' : 'kept',
    params: Object.fromEntries(
      Object.entries(paramsIn(payload)).map(([name, value]) => [name, typed(value, types.get(name) ?? '')])
    ),
    kernel: text(payload.kernel),
    when: rule?.everyMs ? 'every' : rule?.atMs.length ? 'once' : 'cron',
    cron: rule?.cron ?? '',
    every: lengthText(Number(rule?.everyMs ?? 0n)),
    once: (rule?.atMs ?? []).map(at => wall(Number(at), zone)).join(', '),
    zone,
    start: bound(rule?.startMs),
    end: bound(rule?.endMs),
    missed: policy?.missed ?? MissedPolicy.MISSED_LATEST,
    cap: String(policy?.missedCap || 100),
    lookBack: lengthText(Number(policy?.lookBackMs ?? 0n)) || '1 d',
    overlap: policy?.overlap ?? OverlapPolicy.OVERLAP_SKIP,
    jitter: lengthText(Number(policy?.jitterMs ?? 0n)),
    keepOutputs: policy?.keepOutputs ? String(policy.keepOutputs) : '',
    retries: String(Math.max(0, attempts - 1)),
    backoff: lengthText(Number(job?.retry?.baseMs ?? 0n)) || '1 s',
    timeout: lengthText(Number(job?.timeoutMs ?? 0n)),
    cellTimeout: lengthText(Math.round(Number(payload.cell_limit_s ?? 0) * 1000)),
    queue: job?.queue || 'default',
    tags: (job?.tags ?? []).join(' '),
    on: notice?.on.length ? notice.on : USUAL,
    webhook: notice?.webhook ?? '',
    secret: notice?.secret ?? '',
    mail: (notice?.mail ?? []).join(', ')
  };
}

/** The rule as it is typed; the problems of what is no time or length are named by field. */
export function ruleOf(draft: Draft, problems: Problems = {}): MessageInitShape<typeof RuleSchema> {
  const at = (field: 'start' | 'end') => {
    const found = draft[field] ? instantOf(draft[field], draft.zone) : 0;
    if (found === null) {
      problems[field] = 'time';
    }
    return BigInt(found ?? 0);
  };
  const rule = { zone: draft.zone.trim(), startMs: at('start'), endMs: at('end') };
  switch (draft.when) {
    case 'cron':
      return { ...rule, cron: draft.cron.trim() };
    case 'every': {
      const ms = lengthOf(draft.every);
      if (!ms) {
        problems.every = 'length';
      }
      return { ...rule, everyMs: BigInt(ms ?? 0) };
    }
    case 'once': {
      const all = split(draft.once).map(one => instantOf(one, draft.zone));
      if (!all.length || all.includes(null)) {
        problems.once = 'time';
      }
      return { ...rule, atMs: all.map(one => BigInt(one ?? 0)) };
    }
  }
}

/** Everything that Create and Edit take, over the job as it was read; `problems` says what cannot be sent. */
export function requestOf(draft: Draft, job: JobSpec, parameters: readonly Parameter[]) {
  const problems: Problems = {};
  const rule = ruleOf(draft, problems);
  const length = (field: 'lookBack' | 'jitter' | 'backoff' | 'timeout' | 'cellTimeout') => {
    const found = lengthOf(draft[field]);
    if (found === null) {
      problems[field] = 'length';
    }
    return found ?? 0;
  };
  const number = (field: 'cap' | 'retries' | 'keepOutputs', least: number, most: number) => {
    const found = Number(draft[field]);
    if (!/^\d+$/.test(draft[field].trim()) || found < least || found > most) {
      problems[field] = `number ${least} ${most}`;
    }
    return found;
  };
  if (!draft.name.trim()) {
    problems.name = 'empty';
  }
  const attempts = number('retries', 0, 999) + 1;
  const payload = record(job.task?.payload ?? new Uint8Array());
  const given = valuesOf(draft.params, parameters);
  const isTask = job.task?.engine === 'python';
  const next: Record<string, unknown> = {
    ...payload,
    [isTask ? 'arguments' : 'params']: given,
    ...(payload.kind === 'notebook' ? { kernel: draft.kernel, cell_limit_s: length('cellTimeout') / 1000 } : {})
  };
  const isTold = Boolean(draft.webhook.trim() || draft.mail.trim());
  const request = {
    name: draft.name.trim(),
    rule,
    policy: {
      missed: draft.missed,
      missedCap: number('cap', 1, 10_000),
      lookBackMs: BigInt(length('lookBack')),
      overlap: draft.overlap,
      jitterMs: BigInt(length('jitter')),
      keepOutputs: draft.keepOutputs.trim() ? number('keepOutputs', 1, 10_000) : 0
    },
    job: create(JobSpecSchema, {
      ...job,
      task: withPayload(job, next),
      queue: draft.queue.trim() || 'default',
      tags: draft.tags.split(/[\s,]+/).filter(Boolean),
      timeoutMs: BigInt(length('timeout')),
      retry: create(RetryPolicySchema, {
        maxAttempts: attempts,
        maxLost: Math.max(2, attempts),
        baseMs: BigInt(length('backoff')),
        capMs: job.retry?.capMs,
        maxAgeMs: job.retry?.maxAgeMs
      })
    }),
    notice: {
      webhook: draft.webhook.trim(),
      secret: draft.secret.trim(),
      mail: split(draft.mail),
      on: isTold ? [...draft.on] : []
    },
    followsFile: draft.source === 'latest'
  };
  return { request, problems };
}

/** The task of a job, with another payload. */
export function withPayload(job: JobSpec, payload: Record<string, unknown>): Task {
  return create(TaskSchema, {
    engine: job.task?.engine,
    name: job.task?.name,
    payload: new TextEncoder().encode(JSON.stringify(payload))
  });
}

/** Typed parameters as values. Text that is JSON is that value; what the notebook wants of it, the server says. */
export function valuesOf(params: Draft['params'], parameters: readonly Parameter[]): Record<string, unknown> {
  const types = new Map(parameters.map(one => [one.name, one.type]));
  return Object.fromEntries(
    Object.entries(params)
      .filter(([, value]) => value !== '')
      .map(([name, value]) => [name, valueOf(value, types.get(name) ?? '')])
  );
}

function valueOf(value: string, type: string): unknown {
  if (value === SCHEDULED_AT || (type === 'str' && !/^".*"$/s.test(value.trim()))) {
    return value;
  }
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

/** A value as a person would type it. */
function typed(value: unknown, type: string): string {
  if (typeof value === 'string' && (type === 'str' ? value !== '' && !/^".*"$/s.test(value) : !isJson(value))) {
    return value;
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    const [[key, inner] = ['', undefined], ...more] = Object.entries(value);
    if (!more.length && ['$date', '$datetime', '$decimal', '$float'].includes(key)) {
      return String(inner);
    }
  }
  return JSON.stringify(value);
}

function isJson(value: string): boolean {
  try {
    JSON.parse(value);
    return true;
  } catch {
    return false;
  }
}

const FIELDS: Readonly<Record<string, Field | 'when'>> = {
  name: 'name',
  rule: 'when',
  cron: 'when',
  every: 'when',
  at: 'when',
  zone: 'zone',
  start: 'start',
  end: 'end',
  'policy.missed_cap': 'cap',
  'policy.look_back_ms': 'lookBack',
  'policy.jitter_ms': 'jitter',
  'notice.on': 'mail',
  'notice.mail': 'mail',
  'notice.webhook': 'webhook',
  'notice.secret': 'secret',
  'policy.keep_outputs': 'keepOutputs',
  queue: 'queue',
  tags: 'tags',
  timeout_ms: 'timeout',
  'retry.max_attempts': 'retries',
  'retry.base_ms': 'backoff',
  'retry.cap_ms': 'backoff',
  params: 'params',
  'task.payload': 'params'
};

/** Which field of the form a field of the contract is: '' for none of them. */
export function fieldOf(field: string, parameters: readonly string[]): string {
  if (field.startsWith('params.')) {
    const name = field.slice('params.'.length);
    return parameters.includes(name) ? `param:${name}` : 'params';
  }
  return FIELDS[field] ?? '';
}

/** A file on disk as the file browser names it; null where it is not below Lab's root. */
export function belowRoot(path: string, rootUri: string): string | null {
  const root = decodeURIComponent(rootUri.replace(/^file:\/\//, '')).replace(/\/+$/, '');
  return rootUri && path.startsWith(`${root}/`) ? path.slice(root.length + 1) : null;
}

function split(value: string): string[] {
  return value
    .split(',')
    .map(one => one.trim())
    .filter(Boolean);
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
