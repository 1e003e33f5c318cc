/** Runs grouped by the day on which they came, in the viewer's zone. */
import type { Job } from '../gen/loam/jobs/v1/jobs_pb';
import { day } from './words';

export interface DayRow {
  kind: 'day';
  day: string;
  count: number;
  /** Whether the day ends on the loaded pages, so that its count is true. */
  isWhole: boolean;
}
export interface RunRow {
  kind: 'run';
  job: Job;
  place: number;
  head: DayRow;
}
export type Row = DayRow | RunRow;

export interface Grouped {
  rows: readonly Row[];
  /** The row of the run at each place. */
  at: readonly number[];
}

export function grouped(jobs: readonly Job[], hasMore: boolean): Grouped {
  const rows: Row[] = [];
  const places: number[] = [];
  let head: DayRow | undefined;
  let [from, to] = [1, 0];
  jobs.forEach((job, place) => {
    const at = Number(job.createdAtMs);
    const here = head && from <= at && at < to ? head.day : day(at);
    if (head?.day !== here) {
      [from, to] = bounds(at);
      head = { kind: 'day', day: here, count: 0, isWhole: true };
      rows.push(head);
    }
    head.count += 1;
    places.push(rows.length);
    rows.push({ kind: 'run', job, place, head });
  });
  if (head && hasMore) {
    head.isWhole = false;
  }
  return { rows, at: places };
}

/** When the viewer's day of an instant begins and ends: asked once a day, not once a run. */
function bounds(atMs: number): [number, number] {
  const at = new Date(atMs);
  const midnight = (later: number) => new Date(at.getFullYear(), at.getMonth(), at.getDate() + later).getTime();
  return [midnight(0), midnight(1)];
}
