/** What a saved notebook says of a run or a table: a hint from anywhere, so every field is checked and cut. */

export const RUN_MIME = 'application/vnd.loam.run.v1+json';
export const TABLE_MIME = 'application/vnd.loam.table.v1+json';

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const MOST_ROWS = 200;

export interface SavedSnapshot {
  table: string;
  snapshotId: string;
  operation: string;
}

export interface SavedRun {
  /** '' where it is no run id: then nothing is asked. */
  runId: string;
  name: string;
  state: string;
  elapsedMs: number;
  text: string;
  fraction: number | null;
  error: string;
  snapshots: SavedSnapshot[];
}

export interface SavedColumn {
  id: string;
  name: string;
  type: string;
  required: boolean;
}

export interface SavedTable {
  name: string;
  rows: number | null;
  files: number | null;
  sizeBytes: number | null;
  columns: SavedColumn[];
  columnsInAll: number;
  snapshots: SavedCommit[];
}

/** A snapshot as it was when the table was shown. */
export interface SavedCommit {
  snapshotId: string;
  operation: string;
  added: number;
  deleted: number;
  atMs: number;
}

/** The saved run, or null where the bundle is none. */
export function readRun(value: unknown): SavedRun | null {
  if (!isRecord(value) || typeof value.run_id !== 'string') {
    return null;
  }
  const progress = isRecord(value.progress) ? value.progress : {};
  const fraction = number(progress.fraction);
  return {
    runId: ID.test(value.run_id) ? value.run_id : '',
    name: text(value.name),
    state: text(value.state, 40),
    elapsedMs: Math.max(0, number(value.elapsed_ms) ?? 0),
    text: text(progress.text),
    fraction: fraction === null ? null : Math.min(1, Math.max(0, fraction)),
    error: text(value.error, 5_000),
    snapshots: list(value.snapshots).map(snapshot => ({
      table: text(snapshot.table),
      snapshotId: text(snapshot.snapshot_id, 40),
      operation: text(snapshot.operation, 40)
    }))
  };
}

/** The saved table, or null where the bundle is none. */
export function readTable(value: unknown): SavedTable | null {
  if (!isRecord(value) || !('name' in value)) {
    return null;
  }
  const name = Array.isArray(value.name) ? value.name.map(part => text(part)).join('.') : text(value.name);
  const totals = isRecord(value.totals) ? value.totals : {};
  const columns = Array.isArray(value.columns) ? value.columns.length : 0;
  return {
    name: name || '?',
    rows: number(totals.rows),
    files: number(totals.files),
    sizeBytes: number(totals.size_bytes),
    columns: list(value.columns).map(column => ({
      id: text(column.id, 20),
      name: text(column.name),
      type: text(column.type),
      required: column.required === true
    })),
    columnsInAll: columns,
    snapshots: list(value.snapshots).map(snapshot => ({
      snapshotId: text(snapshot.snapshot_id, 40),
      operation: text(snapshot.operation, 40),
      added: number(snapshot.rows_added) ?? 0,
      deleted: number(snapshot.rows_deleted) ?? 0,
      atMs: Date.parse(text(snapshot.committed_at, 40)) || 0
    }))
  };
}

/** Whether a cell holds the code that a run ran: only then does the cell offer to act on the run. */
export function isSameCode(cell: string, ran: unknown): boolean {
  if (typeof ran !== 'string') {
    return false;
  }
  const lines = cell.split('\n');
  const first = lines.findIndex(line => line.trim() !== '');
  if (first < 0 || !/^\s*%%loam\b/.test(lines[first])) {
    return false;
  }
  return lines.slice(first + 1).join('\n').trim() === ran.trim();
}

function list(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.slice(0, MOST_ROWS).filter(isRecord) : [];
}

function text(value: unknown, most = 300): string {
  const given = typeof value === 'string' ? value : typeof value === 'number' ? String(value) : '';
  return given.length > most ? `${given.slice(0, most)}…` : given;
}

function number(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
