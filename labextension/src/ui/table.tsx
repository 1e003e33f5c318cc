/** A table: what is in it, and which run wrote each snapshot. In a cell, or by itself. */
import * as React from 'react';
import type { Event, Snapshot } from '../gen/loam/jobs/v1/jobs_pb';
import { Claim, EventKind } from '../gen/loam/jobs/v1/jobs_pb';
import { Jobs } from '../gen/loam/jobs/v1/service_pb';
import type { SavedTable } from '../model/bundle';
import { rowsOf } from '../model/state';
import type { Trans } from '../model/words';
import { count, size } from '../model/words';
import { Text, When, useNow } from './bits';
import { useFace } from './face';
import { useRead } from './section';

const MOST = 100;
const IN_A_CELL = 10;

export function TableView(props: { name: string; saved: SavedTable | null }): JSX.Element {
  const { name, saved } = props;
  const { loam, trans } = useFace();
  const [writes, setWrites] = React.useState(0);
  React.useEffect(() => {
    const heed = (_: unknown, events: readonly Event[]) => {
      if (events.some(event => event.kind === EventKind.TABLE_WRITTEN && event.snapshot?.table === name)) {
        setWrites(before => before + 1);
      }
    };
    loam.events.connect(heed);
    return () => {
      loam.events.disconnect(heed);
    };
  }, [loam, name]);
  const limit = saved ? IN_A_CELL : MOST;
  const { value, error } = useRead(
    () => loam.call(Jobs.method.snapshots, { table: name, limit: limit + 1 }),
    `${name}/${writes}`
  );
  const nowMs = useNow(false);
  const title = React.useId();
  const rows: readonly SnapshotRow[] = value?.snapshots.length ? value.snapshots.slice(0, limit).map(fromServer) : (saved?.snapshots ?? []);
  const isMore = (value?.snapshots.length ?? 0) > limit;
  return (
    <article className={saved ? 'jp-loam-run' : 'jp-loam-page'} aria-labelledby={title}>
      <div className="jp-loam-title">
        <h1 id={title}>
          <Text value={name} />
        </h1>
      </div>
      {saved ? <div className="jp-loam-facts">{facts(saved, trans).map((fact, at) => <span key={at}>{fact}</span>)}</div> : null}
      <h2>
        {trans.__('Snapshots')}
        <span className="jp-loam-sub">{isMore ? trans.__('the newest %1, more exist', String(limit)) : ''}</span>
      </h2>
      {error ? (
        <div className="jp-loam-sub">
          <Text value={error} />
        </div>
      ) : null}
      {rows.length ? (
        <div className="jp-loam-scroll" tabIndex={0} role="group" aria-label={trans.__('Snapshots')}>
          <table className="jp-loam-grid">
            <thead>
              <tr>
                <th scope="col">{trans.__('snapshot')}</th>
                <th scope="col">{trans.__('operation')}</th>
                <th scope="col" className="r">
                  {trans.__('rows')}
                </th>
                <th scope="col">{trans.__('when')}</th>
                <th scope="col">{trans.__('run')}</th>
              </tr>
            </thead>
            <tbody>
              {rows.map(row => (
                <tr key={row.snapshotId}>
                  <td className="jp-loam-mono">
                    <Text value={row.snapshotId} />
                  </td>
                  <td>
                    <Text value={row.operation} />
                  </td>
                  <td className="r">
                    {row.added ? <span className="jp-loam-plus">+{count(row.added)}</span> : null}{' '}
                    {row.deleted ? <span className="jp-loam-minus">−{count(row.deleted)}</span> : null}
                    {row.added || row.deleted ? null : '±0'}
                  </td>
                  <td>
                    <When atMs={row.atMs} nowMs={nowMs} />
                  </td>
                  <td>{row.server ? <Writers snapshot={row.server} /> : null}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <div className="jp-loam-sub">{value ? trans.__('No snapshot is known here.') : '…'}</div>
      )}
      {saved?.columns.length ? <Schema saved={saved} /> : null}
    </article>
  );
}

interface SnapshotRow {
  snapshotId: string;
  operation: string;
  added: number;
  deleted: number;
  atMs: number;
  server?: Snapshot;
}

function fromServer(snapshot: Snapshot): SnapshotRow {
  return {
    snapshotId: snapshot.snapshotId,
    operation: snapshot.operation,
    ...rowsOf(snapshot),
    atMs: Number(snapshot.committedAtMs),
    server: snapshot
  };
}

function Writers(props: { snapshot: Snapshot }): JSX.Element {
  const { snapshot } = props;
  const { trans, actions } = useFace();
  if (!snapshot.runs.length) {
    return <span className="jp-loam-sub">{trans.__('unknown')}</span>;
  }
  return (
    <>
      {snapshot.claim === Claim.ONE_OF ? <span className="jp-loam-sub">{trans.__('one of ')}</span> : null}
      {snapshot.runs.slice(0, 5).map(run => (
        <button
          key={`${run.jobId}/${run.epoch}`}
          type="button"
          className="jp-loam-link"
          onClick={() => actions.open(run.jobId)}
        >
          <Text value={run.name} most={80} />
        </button>
      ))}
    </>
  );
}

function Schema(props: { saved: SavedTable }): JSX.Element {
  const { saved } = props;
  const { trans } = useFace();
  return (
    <>
      <h2>
        {trans.__('Schema')}
        <span className="jp-loam-sub">
          {saved.columnsInAll > saved.columns.length
            ? trans.__('%1 of %2 columns', count(saved.columns.length), count(saved.columnsInAll))
            : trans._n('%1 column', '%1 columns', saved.columnsInAll, count(saved.columnsInAll))}
        </span>
      </h2>
      <div className="jp-loam-scroll" tabIndex={0} role="group" aria-label={trans.__('Schema')}>
        <table className="jp-loam-grid">
          <tbody>
            {saved.columns.map((column, place) => (
              <tr key={place}>
                <td className="r">
                  <Text value={column.id} />
                </td>
                <td>
                  <Text value={column.name} />
                </td>
                <td>
                  <Text value={column.type} />
                </td>
                <td className="jp-loam-sub w">{column.required ? trans.__('not null') : ''}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function facts(saved: SavedTable, trans: Trans): string[] {
  return [
    saved.rows === null ? '' : trans.__('%1 rows', count(saved.rows)),
    saved.sizeBytes === null ? '' : size(saved.sizeBytes),
    saved.files === null ? '' : trans._n('%1 file', '%1 files', saved.files, count(saved.files))
  ].filter(Boolean);
}
