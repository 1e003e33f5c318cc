import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { EventKind, JobState } from '../src/gen/loam/jobs/v1/jobs_pb';
import {
  CountsResponseSchema,
  GetResponseSchema,
  HelloResponseSchema,
  ListRequestSchema,
  ListResponseSchema
} from '../src/gen/loam/jobs/v1/service_pb';
import { LoamError, caller, refusal } from '../src/model/call';
import { Loam } from '../src/model/loam';
import { endedIn, missedIn, noticeOf } from '../src/model/notices';
import { Stream } from '../src/model/stream';
import { timeline } from '../src/model/timeline';
import { NOW, event, job } from './make';

const bytes = (text: string) => new TextEncoder().encode(text).buffer as ArrayBuffer;

/** A loam on a server in this file: it counts calls and answers with `jobs`. */
function page(jobs = [job('a')]) {
  const calls: string[] = [];
  const asked: string[][] = [];
  let isHidden = false;
  const call = caller(async (operation, body) => {
    calls.push(operation);
    const answers: Record<string, () => Uint8Array> = {
      Hello: () => toBinary(HelloResponseSchema, create(HelloResponseSchema, { actor: 'ada' })),
      Counts: () => toBinary(CountsResponseSchema, create(CountsResponseSchema, { running: 1n })),
      Get: () => toBinary(GetResponseSchema, create(GetResponseSchema, { job: jobs[0], position: 3 })),
      List: () => {
        asked.push(fromBinary(ListRequestSchema, body).jobIds);
        return toBinary(ListResponseSchema, create(ListResponseSchema, { jobs }));
      }
    };
    return { ok: true, status: 200, body: answers[operation]().slice().buffer as ArrayBuffer };
  });
  const stream = new Stream({ url: () => 'ws://x', open: () => ({}) as WebSocket, soon: run => run() });
  const loam = new Loam(call, stream, () => isHidden);
  return { loam, stream, calls, asked, hide: (hidden: boolean) => (isHidden = hidden) };
}

const soon = () => new Promise(resolve => setTimeout(resolve, 20));

describe('who did what', () => {
  it('is told of a run that somebody cancelled, and kept for the last thousand', () => {
    const { loam, stream } = page();
    const cancelled = (id: string) => event(1, id, { kind: EventKind.CANCEL_REQUESTED, actor: 'bob' });
    stream.onEvents([cancelled('a'), event(2, 'b', { kind: EventKind.LEASED, actor: 'worker' })]);
    expect([...loam.cancelledBy]).toEqual([['a', 'bob']]);
    stream.onEvents(Array.from({ length: 1_000 }, (_, at) => cancelled(`c${at}`)));
    expect([loam.cancelledBy.size, loam.cancelledBy.has('a'), loam.cancelledBy.has('c0')]).toEqual([1_000, false, true]);
    loam.dispose();
  });
});

describe('what a page asks', () => {
  it('reads the list, the counts and the name when the server is there', async () => {
    const { loam, stream, calls } = page();
    stream.onState({ kind: 'running' });
    await soon();
    expect(calls.sort()).toEqual(['Counts', 'Hello', 'List']);
    expect([loam.actor, loam.runs.jobs.length]).toEqual(['ada', 1]);
    loam.dispose();
  });

  it('asks nothing while it is hidden, and once when it is seen again', async () => {
    const { loam, calls, hide, stream } = page();
    await loam.reload();
    hide(true);
    await soon();
    calls.length = 0;
    for (let at = 1; at < 100; at++) {
      stream.onEvents([event(at, 'a', { kind: EventKind.LEASED, state: JobState.RUNNING, epoch: BigInt(at) })]);
    }
    await soon();
    expect(calls).toEqual([]);
    expect(loam.runs.get('a')?.epoch).toBe(99n);
    hide(false);
    loam.wake();
    await new Promise(resolve => setTimeout(resolve, 1_100));
    expect(calls).toEqual(['Counts']);
    loam.dispose();
  });

  it('loses no run that comes while the first page is on its way', async () => {
    const { loam, stream } = page([]);
    const reading = loam.reload();
    stream.onEvents([event(1, 'new', { kind: EventKind.ENQUEUED, state: JobState.READY, job: job('new') })]);
    await reading;
    expect(loam.runs.jobs.map(one => one.id)).toEqual(['new']);
    loam.dispose();
  });

  it('reads a followed run once, however many cells show it', async () => {
    const { loam, calls, stream } = page();
    const one = loam.follow('a');
    expect(loam.follow('a')).toBe(one);
    await soon();
    expect(calls).toEqual(['Get']);
    expect(one.job?.position).toBe(3);
    stream.onEvents([event(1, 'a', { kind: EventKind.PROGRESSED, state: JobState.RUNNING, epoch: 1n, progress: { fraction: 0.4 } })]);
    expect(one.job?.progress?.fraction).toBe(0.4);
    loam.release(one);
    loam.release(one);
    expect(loam.follow('a')).not.toBe(one);
    loam.dispose();
  });
});

describe('errors of calls', () => {
  it('keep the words of the server, and survive what is no answer of ours', () => {
    expect(refusal(404, bytes('{"code": "not_found", "message": "no run"}'))).toMatchObject({ code: 'not_found', message: 'no run' });
    expect(refusal(403, bytes('{"message": "Forbidden", "reason": null}'))).toMatchObject({ code: 'permission_denied' });
    const details = '[{"type": "other", "value": 1}, {"type": "loam.jobs.v1.InvalidField", "value": "CgpwYXJhbXMuZGF5"}]';
    expect(refusal(400, bytes(`{"code": "invalid_argument", "message": "no", "details": ${details}}`)).field).toBe('params.day');
    expect(refusal(502, bytes('<html>proxy</html>'))).toMatchObject({ code: 'unavailable', message: 'HTTP 502' });
    expect(refusal(404, bytes('null'))).toBeInstanceOf(LoamError);
  });
});

describe('notices', () => {
  it('come once, after the outcome, and not for what was cancelled or ended before', () => {
    const ended = (id: string, state: JobState, at = NOW) => event(1, id, { kind: EventKind.ENDED, state, atMs: BigInt(at) });
    const events = [
      event(0, 'a', { kind: EventKind.RETRYING, state: JobState.SCHEDULED }),
      ended('a', JobState.FAILED),
      ended('a', JobState.FAILED),
      ended('b', JobState.CANCELLED),
      ended('c', JobState.FAILED, NOW - 5_000),
      ended('d', JobState.FAILED)
    ];
    expect(endedIn(events, NOW - 1, new Set(['d'])).map(one => one.jobId)).toEqual(['a']);
  });

  it('tells each missed tick once, and no other change of a schedule', () => {
    const change = (cursor: number, message: string, atMs = NOW) =>
      event(cursor, '', { kind: EventKind.SCHEDULE_CHANGED, scheduleId: 's', message, atMs: BigInt(atMs) });
    const events = [change(1, 'missed 4 ticks'), change(2, 'paused'), change(3, 'missed 1 ticks', NOW - 5), change(4, 'missed 2 ticks')];
    expect(missedIn(events, NOW, new Set(['4'])).map(one => one.cursor)).toEqual(['1']);
  });

  it('are for failures and for long runs', () => {
    const rule = { onFailure: true, longMs: 60_000 };
    const took = (ms: number) => ({ startedAtMs: BigInt(NOW), finishedAtMs: BigInt(NOW + ms) });
    expect(noticeOf(job('a', { state: JobState.FAILED, ...took(5) }), rule)).toBe('failed');
    expect(noticeOf(job('a', { state: JobState.FAILED, attached: true, ...took(5) }), rule)).toBeNull();
    expect(noticeOf(job('a', { state: JobState.SUCCEEDED, ...took(5) }), rule)).toBeNull();
    expect(noticeOf(job('a', { state: JobState.SUCCEEDED, ...took(90_000) }), rule)).toBe('ended');
    expect(noticeOf(job('a', { state: JobState.FAILED, ...took(5) }), { ...rule, onFailure: false })).toBeNull();
  });
});

describe('the timeline of attempts', () => {
  it('places attempts and pauses on one axis, and counts those that count', () => {
    const run = job('a', { finishedAtMs: BigInt(NOW + 100) });
    const attempt = (epoch: bigint, from: number, to: number, end: number) =>
      ({ $typeName: 'loam.jobs.v1.Attempt', epoch, worker: 'w', startedAtMs: BigInt(NOW + from), endedAtMs: BigInt(NOW + to), end, versions: '' }) as never;
    const drawn = timeline(run, [attempt(1n, 0, 20, 2), attempt(2n, 30, 40, 3), attempt(3n, 50, 100, 1)], NOW + 999);
    expect(drawn.lanes.map(lane => [lane.number, lane.left, lane.width, lane.waitWidth])).toEqual([
      ['1', 0, 20, 10],
      ['', 30, 10, 10],
      ['2', 50, 50, 0]
    ]);
    expect([drawn.counted, drawn.givenBack]).toEqual([2, 1]);
  });
});
