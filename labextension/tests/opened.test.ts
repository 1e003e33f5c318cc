import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { JobSpecSchema } from '../src/gen/loam/jobs/v1/jobs_pb';
import {
  GetScheduleResponseSchema,
  InspectNotebookResponseSchema,
  ScheduleSchema
} from '../src/gen/loam/jobs/v1/schedules_pb';
import type { Call } from '../src/model/call';
import type { Files } from '../src/model/opened';
import { openNew, openOld, sourceFor } from '../src/model/opened';
import { record } from '../src/model/state';
import { trans } from './make';

const jobWith = (payload: object) =>
  create(JobSpecSchema, { task: { engine: 'notebook', name: 'a.ipynb', payload: new TextEncoder().encode(JSON.stringify(payload)) } });
const KEPT = { kind: 'notebook', path: '/lab/sub/a.ipynb', source_blob: { sha256: 'old' }, params: { n: 3 }, kernel: 'k', cwd: '/lab' };
const FILE = { kind: 'notebook', path: '/lab/sub/a.ipynb', source: 'new cells', params: {}, kernel: 'own', sha256: 'new', cwd: '/lab/sub' };

/** A server with one schedule; what it was asked is in `asked`. */
function given(schedule: object, language = 'python') {
  const asked: [string, object][] = [];
  const call = ((method: { name: string }, request: object) => {
    asked.push([method.name, request]);
    return Promise.resolve(
      method.name === 'GetSchedule'
        ? create(GetScheduleResponseSchema, { schedule: create(ScheduleSchema, schedule) })
        : create(InspectNotebookResponseSchema, { language, parameters: [{ name: 'n', type: 'int' }] })
    );
  }) as unknown as Call;
  const files: Files & { read: string[] } = {
    read: [],
    rootUri: 'file:///lab',
    jobOf(path) {
      this.read.push(path);
      return Promise.resolve(jobWith(FILE));
    }
  };
  return { call, files, asked };
}
const payloadOf = (job: { task?: { payload: Uint8Array } }) => record(job.task?.payload ?? new Uint8Array());

describe('a form', () => {
  it('is made from what a file declares', async () => {
    const { call, files, asked } = given({});
    const opened = await openNew(call, 'sub/a.ipynb', files);
    expect(asked).toEqual([['InspectNotebook', { content: new TextEncoder().encode('new cells') }]]);
    expect([opened.isDeclared, opened.kernel, opened.draft.name]).toEqual([true, 'own', 'a']);
  });

  it('reads the parameters of the source that a schedule keeps', async () => {
    const { call, files, asked } = given({ id: 's', job: jobWith(KEPT) });
    const opened = await openOld(call, 's', files);
    expect(asked.map(([name, request]) => [name, request])).toEqual([
      ['GetSchedule', { scheduleId: 's' }],
      ['InspectNotebook', { scheduleId: 's' }]
    ]);
    expect([opened.draft.source, opened.draft.params]).toEqual(['kept', { n: '3' }]);
    expect(files.read).toEqual([]);
  });

  it('reads the file that a schedule follows, if Lab can see it', async () => {
    const follows = { id: 's', followsFile: true, job: jobWith({ ...KEPT, source_blob: undefined, follows_file: true }) };
    const near = given(follows);
    expect((await openOld(near.call, 's', near.files)).isDeclared).toBe(true);
    expect(near.files.read).toEqual(['sub/a.ipynb']);
    const far = given(follows);
    far.files.rootUri = 'file:///elsewhere';
    const opened = await openOld(far.call, 's', far.files);
    expect([opened.isDeclared, opened.draft.params]).toEqual([false, { n: '3' }]);
  });

  it('takes parameters of other languages as JSON', async () => {
    const { call, files } = given({}, 'R');
    expect((await openNew(call, 'a.ipynb', files)).isDeclared).toBe(false);
  });

  it('sends the kept source by name, and a new copy with what was typed', async () => {
    const { call, files } = given({ id: 's', job: jobWith(KEPT) });
    const opened = await openOld(call, 's', files);
    const typed = jobWith({ ...KEPT, params: { n: 4 } });
    expect(payloadOf(await sourceFor(typed, 'kept', opened, files, trans))).toMatchObject({ source_blob: { sha256: 'old' }, params: { n: 4 } });
    const copied = payloadOf(await sourceFor(typed, 'fresh', opened, files, trans));
    expect(copied).toEqual({ ...FILE, params: { n: 4 }, kernel: 'k', cwd: '/lab' });
    files.rootUri = 'file:///elsewhere';
    await expect(sourceFor(typed, 'fresh', opened, files, trans)).rejects.toThrow('not below the folder');
  });
});
