import { describe, expect, it } from 'vitest';
import { EventKind, JobState } from '../src/gen/loam/jobs/v1/jobs_pb';
import { grouped } from '../src/model/days';
import { EVERYTHING } from '../src/model/filter';
import { RunList } from '../src/model/list';
import { NOW, event, job } from './make';

const made = (id: string, ago: number, more = {}) => job(id, { createdAtMs: BigInt(NOW - ago), ...more });

describe('the list of runs', () => {
  it('asks for a new run and puts it on top', () => {
    const list = new RunList(EVERYTHING);
    list.append([made('b', 10)], '');
    list.apply([event(1, 'c', { kind: EventKind.ENQUEUED, state: JobState.READY })]);
    expect(list.take(10)).toEqual(['c']);
    list.refresh(['c'], [made('c', 0)]);
    expect(list.jobs.map(run => run.id)).toEqual(['c', 'b']);
    expect(list.get('b')?.id).toBe('b');
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

  it('takes no more than asked, the new ones first', () => {
    const list = new RunList(EVERYTHING);
    list.append([made('a', 0)], '');
    list.apply([
      event(1, 'a', { kind: EventKind.LEASED, state: JobState.RUNNING, epoch: 1n }),
      event(2, 'b', { kind: EventKind.ENQUEUED })
    ]);
    expect(list.take(1)).toEqual(['b']);
    expect(list.take(5)).toEqual(['a']);
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
