/** Messages for tests, with only what a test is about. */
import type { MessageInitShape } from '@bufbuild/protobuf';
import { create, toBinary } from '@bufbuild/protobuf';
import type { Event, Job } from '../src/gen/loam/jobs/v1/jobs_pb';
import { EventSchema, JobSchema, JobState } from '../src/gen/loam/jobs/v1/jobs_pb';
import { OutputSchema, WatchResponseSchema } from '../src/gen/loam/jobs/v1/service_pb';

export const NOW = 1_800_000_000_000;

export function job(id: string, more: MessageInitShape<typeof JobSchema> = {}): Job {
  return create(JobSchema, {
    id,
    state: JobState.READY,
    task: { engine: 'spark', name: `run ${id}` },
    queue: 'default',
    actor: 'ada',
    createdAtMs: BigInt(NOW),
    runAtMs: BigInt(NOW),
    ...more
  });
}

export function event(cursor: number, jobId: string, more: MessageInitShape<typeof EventSchema> = {}): Event {
  return create(EventSchema, { cursor: String(cursor), jobId, atMs: BigInt(NOW), ...more });
}

export function told(more: MessageInitShape<typeof WatchResponseSchema>): ArrayBuffer {
  return toBinary(WatchResponseSchema, create(WatchResponseSchema, more)).slice().buffer as ArrayBuffer;
}

export function output(value: unknown, epoch = 1n) {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return create(OutputSchema, { epoch, output: new TextEncoder().encode(text) });
}

export const trans = {
  __: (text: string, ...values: unknown[]) => values.reduce<string>((said, value, at) => said.replace(`%${at + 1}`, String(value)), text),
  _n: (one: string, many: string, count: number, ...values: unknown[]) => trans.__(count === 1 ? one : many, ...values)
};
