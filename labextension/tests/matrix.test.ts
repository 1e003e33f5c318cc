import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import type { Cell } from '../src/gen/loam/jobs/v1/jobs_pb';
import { CellSchema, CellState, JobState } from '../src/gen/loam/jobs/v1/jobs_pb';
import { ScheduleSchema, TickHow, TickSchema } from '../src/gen/loam/jobs/v1/schedules_pb';
import { failedCell, readNotebook } from '../src/model/executed';
import { EVERYTHING, asked, isEmpty, matches } from '../src/model/filter';
import { markAt, matrixOf, summary, usual } from '../src/model/matrix';
import { lastWord, scheduleWord } from '../src/model/schedules';
import { NOW, job, trans } from './make';

const DAY = 86_400_000;
const cells = (...states: CellState[]): Cell[] =>
  states.map((state, place) => create(CellSchema, { index: place * 2, title: `cell ${place}`, state, tookMs: BigInt(1_000 * (place + 1)) }));
const tick = (day: number, state: JobState, ...of: CellState[]) => {
  const startedAtMs = BigInt(NOW + day * DAY);
  return create(TickSchema, {
    atMs: startedAtMs,
    jobId: `j${day}`,
    job: job(`j${day}`, { state, startedAtMs, finishedAtMs: startedAtMs + BigInt(1_000 * (day + 1)), attempts: day === 1 ? 2 : 1 }),
    cells: cells(...of)
  });
};
const { CELL_OK, CELL_FAILED, CELL_REPLAYED, CELL_RUNNING, CELL_WAITING, CELL_SKIPPED } = CellState;
const TICKS = [
  tick(4, JobState.RUNNING, CELL_OK, CELL_RUNNING, CELL_WAITING),
  tick(3, JobState.FAILED, CELL_REPLAYED, CELL_FAILED, CELL_SKIPPED),
  create(TickSchema, { atMs: BigInt(NOW + 2 * DAY), how: TickHow.MISSED, count: 3 }),
  tick(1, JobState.SUCCEEDED, CELL_OK, CELL_OK, CELL_OK),
  tick(0, JobState.FAILED, CELL_OK, CELL_RUNNING, CELL_WAITING)
];

describe('the matrix', () => {
  const matrix = matrixOf(TICKS, NOW + 4 * DAY + 60_000);

  it('has time across, oldest first, and the run above its cells', () => {
    expect(matrix.columns.map(column => column.tick.jobId)).toEqual(['j0', 'j1', '', 'j3', 'j4']);
    expect(matrix.rows.map(row => row.index)).toEqual([-1, 0, 2, 4]);
    expect(matrix.rows[2].title).toBe('cell 1');
  });

  it('marks what became of each cell', () => {
    expect(matrix.columns.map(column => matrix.rows.map(row => markAt(column, row)))).toEqual([
      ['failed', 'succeeded', 'failed', 'not run'],
      ['retried', 'succeeded', 'succeeded', 'succeeded'],
      ['missed', 'missed', 'missed', 'missed'],
      ['failed', 'restored', 'failed', 'not run'],
      ['running', 'succeeded', 'running', 'waiting']
    ]);
  });

  it('counts ticks, not columns', () => {
    expect(Object.fromEntries(summary(matrix))).toEqual({ failed: 2, retried: 1, missed: 3, running: 1 });
  });

  it('knows since when a cell fails, and how long it usually takes', () => {
    expect(usual(matrix, matrix.rows[2], 3)).toEqual({ medianMs: 2_000, count: 1, failures: 1 });
    expect(usual(matrix, matrix.rows[0], 5)).toEqual({ medianMs: 2_000, count: 1, failures: 2 });
    expect(failedCell(TICKS[1].cells)?.index).toBe(2);
    expect(failedCell(TICKS[3].cells)).toBeNull();
  });

  it('tells a deleted run from a missed tick', () => {
    const gone = matrixOf([create(TickSchema, { atMs: 1n, jobId: 'x' }), create(TickSchema, { atMs: 0n, how: TickHow.OVERLAPPED })], NOW);
    expect(gone.columns.map(column => column.mark)).toEqual(['missed', 'not run']);
  });
});

describe('a schedule in the list', () => {
  it.each([
    [{ broken: 'why', paused: true }, 'broken'],
    [{ paused: true, waiting: 1 }, 'paused'],
    [{ waiting: 1, nextAtMs: 5n }, 'queued'],
    [{ waiting: 1, last: TICKS[0] }, 'running'],
    [{ nextAtMs: 5n }, 'scheduled'],
    [{}, 'over']
  ])('%o is %s', (given, word) => expect(scheduleWord(create(ScheduleSchema, given))).toBe(word));

  it('says how its last run ended', () => {
    expect(lastWord(create(ScheduleSchema, { last: TICKS[1] }))).toBe('failed');
    expect(lastWord(create(ScheduleSchema, {}))).toBeNull();
  });

  it('filters the runs, those that come by event too', () => {
    const filter = { ...EVERYTHING, schedule: 's', scheduleName: 'daily' };
    expect(asked(filter)).toMatchObject({ scheduleId: 's', states: [] });
    expect(asked(filter)).not.toHaveProperty('scheduleName');
    expect(matches(job('a', { headers: { 'loam.schedule': 's' } }), filter)).toBe(true);
    expect(matches(job('b'), filter)).toBe(false);
    expect([isEmpty(filter), isEmpty(EVERYTHING)]).toEqual([false, true]);
  });
});

describe('an executed notebook', () => {
  const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

  it('cannot claim to be trusted', () => {
    const read = readNotebook(bytes({ nbformat: 4, cells: [{ metadata: { trusted: true, tags: ['a'] } }, {}] }), trans);
    expect(read.cells.map(cell => cell.metadata)).toEqual([{ tags: ['a'] }, {}]);
  });

  it.each([{}, { nbformat: 3, worksheets: [] }, { nbformat: 4, cells: 1 }])('%o is none', value =>
    expect(() => readNotebook(bytes(value), trans)).toThrow('no notebook of format 4')
  );
});
