import { describe, expect, it } from 'vitest';
import { EventKind, JobState } from '../src/gen/loam/jobs/v1/jobs_pb';
import { grouped } from '../src/model/days';
import { EVERYTHING } from '../src/model/filter';
import { RunList } from '../src/model/list';
import { NOW, event, job } from './make';

const made = (id: string, ago: number, more = {}) => job(id, { createdAtMs: BigInt(NOW - ago), ...more });

describe('the list of runs', () => {
  it('shows a new run on top at once, and asks nothing for it', () => {
    const list = new RunList(EVERYTHING);
    list.append([made('b', 10)], '');
    list.apply([
      event(1, 'c', { kind: EventKind.ENQUEUED, state: JobState.READY, job: made('c', 0) }),
      event(2, 'd', { kind: EventKind.ENQUEUED, state: JobState.READY, job: made('d', 0) }),
      event(3, 'c', { kind: EventKind.LEASED, state: JobState.RUNNING, epoch: 1n })
    ]);
    expect(list.jobs.map(run => run.id)).toEqual(['d', 'c', 'b']);
    expect(list.get('c')?.state).toBe(JobState.RUNNING);
    expect(list.take(10)).toEqual([]);
  });

  it('takes a run as an event brings it, and lets it go where the filter means it no longer', () => {
    const list = new RunList({ ...EVERYTHING, state: 'running' });
    list.append([made('a', 1, { state: JobState.RUNNING, epoch: 1n }), made('b', 2, { state: JobState.RUNNING, epoch: 1n })], '');
    const failed = made('a', 1, { state: JobState.FAILED, epoch: 1n, deadLetter: true, error: 'ValueError: x' });
    list.apply([
      event(1, 'a', { kind: EventKind.ENDED, state: JobState.FAILED, epoch: 1n, job: failed }),
      event(2, 'n', { kind: EventKind.ENQUEUED, state: JobState.READY, job: made('n', 0) }),
      event(3, 'x', { kind: EventKind.LEASED, state: JobState.RUNNING, epoch: 1n })
    ]);
    expect(list.jobs.map(run => run.id)).toEqual(['b']);
    expect(list.take(10)).toEqual(['x']);
    const dead = new RunList({ ...EVERYTHING, state: 'dead letter' });
    dead.append([], '');
    dead.apply([event(1, 'a', { kind: EventKind.ENDED, state: JobState.FAILED, epoch: 1n, job: failed })]);
    expect(dead.jobs.map(run => run.error)).toEqual(['ValueError: x']);
  });

  it('keeps no run that was deleted', () => {
    const list = new RunList(EVERYTHING);
    list.append([made('a', 0, { state: JobState.SUCCEEDED })], '');
    list.apply([event(1, 'a', { kind: EventKind.DELETED, state: JobState.SUCCEEDED })]);
    expect(list.jobs).toEqual([]);
  });

  it('keeps the state that an event told when an older look comes in', () => {
    const list = new RunList(EVERYTHING);
    list.append([made('a', 0, { epoch: 1n, state: JobState.RUNNING })], '');
    list.apply([event(2, 'a', { kind: EventKind.LEASED, state: JobState.RUNNING, epoch: 2n })]);
    list.refresh(['a'], [made('a', 0, { epoch: 1n, state: JobState.READY })]);
    expect(list.get('a')?.state).toBe(JobState.RUNNING);
  });

  it('drops what is deleted and what the filter no longer means', () => {
    const list = new RunList({ ...EVERYTHING, state: 'queued' });
    list.append([made('a', 0), made('b', 1), made('c', 2)], '');
    list.refresh(['a', 'b'], [made('b', 1, { state: JobState.SUCCEEDED })]);
    expect(list.jobs.map(run => run.id)).toEqual(['c']);
  });

  it('leaves a run below the loaded pages to its page', () => {
    const list = new RunList(EVERYTHING);
    list.append([made('c', 0), made('b', 10)], '7');
    list.refresh(['a'], [made('a', 99)]);
    expect(list.jobs.map(run => run.id)).toEqual(['c', 'b']);
    list.append([made('b', 10), made('a', 99)], '');
    expect(list.jobs.map(run => run.id)).toEqual(['c', 'b', 'a']);
  });

  it('keeps the order of the server for runs of one millisecond', () => {
    const list = new RunList(EVERYTHING);
    list.append([made('z', 0)], '');
    list.refresh(['b', 'c', 'a'], [made('b', 0), made('c', 0), made('a', 0)]);
    expect(list.jobs.map(run => run.id)).toEqual(['b', 'c', 'a', 'z']);
  });

  it('hands out what is to be read once, and no more than asked', () => {
    const list = new RunList({ ...EVERYTHING, state: 'running' });
    list.append([], '');
    list.apply(['a', 'b', 'a'].map((id, at) => event(at, id, { kind: EventKind.LEASED, state: JobState.RUNNING, epoch: 1n })));
    expect(list.take(1)).toEqual(['a']);
    expect(list.take(5)).toEqual(['b']);
    expect(list.take(5)).toEqual([]);
  });

  it('makes no new array where nothing changed', () => {
    const list = new RunList(EVERYTHING);
    list.append([made('a', 0)], '');
    const before = list.jobs;
    expect(list.apply([event(1, 'x', { kind: EventKind.PROGRESSED })])).toBe(false);
    expect(list.jobs).toBe(before);
  });

  it('heeds 1,000 events on 10,000 runs within a frame or two', () => {
    const list = new RunList(EVERYTHING);
    list.append(
      Array.from({ length: 10_000 }, (_, at) => made(`r${at}`, at)),
      ''
    );
    const events = Array.from({ length: 1_000 }, (_, at) =>
      event(at, `r${at * 7}`, { kind: EventKind.LEASED, state: JobState.RUNNING, epoch: 1n })
    );
    const began = performance.now();
    list.apply(events);
    expect(performance.now() - began).toBeLessThan(1_000); // 100 on an idle machine; a scan of all runs for each event takes ten times that
  });
});

describe('days', () => {
  it('groups by day and counts only what is whole', () => {
    const day = 86_400_000;
    const { rows, at } = grouped([made('a', 0), made('b', 1), made('c', day), made('d', day + 1)], true);
    expect(rows.map(row => (row.kind === 'day' ? `${row.count}${row.isWhole ? '' : '+'}` : row.job.id))).toEqual([
      '2', 'a', 'b', '2+', 'c', 'd'
    ]);
    expect(at).toEqual([1, 2, 4, 5]);
  });
});
