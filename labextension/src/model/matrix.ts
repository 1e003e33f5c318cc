/** The last ticks of a schedule as a matrix: time across, cells down. Pure. */
import type { Cell, Job } from '../gen/loam/jobs/v1/jobs_pb';
import { CellState, JobState } from '../gen/loam/jobs/v1/jobs_pb';
import type { Tick } from '../gen/loam/jobs/v1/schedules_pb';
import { TickHow } from '../gen/loam/jobs/v1/schedules_pb';
import { hasEnded, lengthMs } from './state';

export type Mark = 'succeeded' | 'retried' | 'restored' | 'failed' | 'not run' | 'missed' | 'running' | 'waiting' | 'cancelled';

/** The class that draws each mark: the shapes of the mockup. */
export const MARK: Record<Mark, string> = {
  succeeded: '',
  retried: 'r',
  restored: 'k',
  failed: 'f',
  'not run': 'u',
  missed: 'x',
  running: 'g',
  waiting: 'w',
  cancelled: 'c'
};

export interface Column {
  key: string;
  tick: Tick;
  job: Job | null;
  mark: Mark;
  /** Of the run, in ms; 0 where none was made. */
  lengthMs: number;
  cells: ReadonlyMap<number, Cell>;
}

export interface Row {
  /** The cell's index among all of the notebook; -1 for the run itself. */
  index: number;
  title: string;
}

export interface Matrix {
  /** Oldest first. */
  columns: readonly Column[];
  rows: readonly Row[];
  longestMs: number;
}

/** Of ticks as ListTicks gives them, newest first. */
export function matrixOf(ticks: readonly Tick[], nowMs: number): Matrix {
  const columns = [...ticks].reverse().map(tick => columnOf(tick, nowMs));
  const titles = new Map<number, string>();
  for (const column of columns) {
    // The newest run's titles stand: a notebook that follows its file may have changed.
    column.cells.forEach((cell, index) => titles.set(index, cell.title));
  }
  const cells = [...titles].sort(([a], [b]) => a - b).map(([index, title]) => ({ index, title }));
  return {
    columns,
    rows: [{ index: -1, title: '' }, ...cells],
    longestMs: Math.max(1, ...columns.map(column => column.lengthMs))
  };
}

function columnOf(tick: Tick, nowMs: number): Column {
  const job = tick.job ?? null;
  return {
    key: `${tick.atMs}/${tick.how}/${tick.backfillId}/${tick.jobId}`,
    tick,
    job,
    mark: job ? markOf(job) : tick.jobId ? 'not run' : 'missed',
    lengthMs: job ? lengthMs(job, nowMs) : 0,
    cells: new Map(tick.cells.map(cell => [cell.index, cell]))
  };
}

function markOf(job: Job): Mark {
  switch (job.state) {
    case JobState.SUCCEEDED:
      return job.attempts > 1 ? 'retried' : 'succeeded';
    case JobState.FAILED:
      return 'failed';
    case JobState.CANCELLED:
      return 'cancelled';
    case JobState.RUNNING:
      return 'running';
    default:
      return 'waiting';
  }
}

/** What a cell of the matrix shows. */
export function markAt(column: Column, row: Row): Mark {
  if (row.index < 0 || (!column.job && column.mark === 'missed')) {
    return column.mark;
  }
  const cell = column.cells.get(row.index);
  switch (cell?.state) {
    case CellState.CELL_OK:
      return 'succeeded';
    case CellState.CELL_FAILED:
      return 'failed';
    case CellState.CELL_REPLAYED:
      return 'restored';
    case CellState.CELL_RUNNING:
      // A run that ended while this cell ran has not finished it.
      return column.job && hasEnded(column.job) ? (column.mark === 'cancelled' ? 'cancelled' : 'failed') : 'running';
    case CellState.CELL_WAITING:
      return column.job && !hasEnded(column.job) ? 'waiting' : 'not run';
    default:
      return 'not run';
  }
}

/** How often each of the marks stands in the row of runs. */
export function summary(matrix: Matrix): [Mark, number][] {
  const counts = new Map<Mark, number>();
  for (const { mark, tick } of matrix.columns) {
    const many = mark === 'missed' && tick.how === TickHow.MISSED ? tick.count || 1 : 1;
    counts.set(mark, (counts.get(mark) ?? 0) + many);
  }
  return [...counts];
}

/** The middle of the lengths of this row's successes before a column, and how many there are. */
export function usual(matrix: Matrix, row: Row, before: number): { medianMs: number; count: number; failures: number } {
  const earlier = matrix.columns.slice(0, before);
  const lengths = earlier
    .filter(column => ['succeeded', 'retried'].includes(markAt(column, row)))
    .map(column => (row.index < 0 ? column.lengthMs : Number(column.cells.get(row.index)?.tookMs ?? 0n)))
    .sort((a, b) => a - b);
  const failures = earlier.filter(column => markAt(column, row) === 'failed').length;
  return { medianMs: lengths[Math.floor(lengths.length / 2)] ?? 0, count: lengths.length, failures };
}
