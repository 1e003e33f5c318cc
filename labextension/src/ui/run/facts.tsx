/** Beside the run: its parameters, what it wrote, its files, where it ran. */
import * as React from 'react';
import type { Job } from '../../gen/loam/jobs/v1/jobs_pb';
import { Claim } from '../../gen/loam/jobs/v1/jobs_pb';
import type { GetResponse } from '../../gen/loam/jobs/v1/service_pb';
import { hasEnded, record, rowsOf } from '../../model/state';
import { count, duration, instant, size } from '../../model/words';
import { Text } from '../bits';
import { useFace } from '../face';

interface Props {
  job: Job;
  detail: GetResponse;
  payload: Record<string, unknown>;
}

export function Facts(props: Props): JSX.Element {
  return (
    <>
      <Parameters {...props} />
      <Written {...props} />
      <Files {...props} />
      <Result {...props} />
      <Where {...props} />
    </>
  );
}

function Parameters({ payload }: Props): JSX.Element | null {
  const { trans } = useFace();
  const params = payload.params;
  const given = typeof params === 'object' && params !== null ? Object.entries(params) : [];
  if (!given.length) {
    return null;
  }
  return (
    <>
      <h2>{trans.__('Parameters')}</h2>
      <dl className="jp-loam-dl">
        {given.slice(0, 100).map(([name, value]) => (
          <React.Fragment key={name}>
            <dt className="jp-loam-mono">
              <Text value={name} most={80} />
            </dt>
            <dd className="jp-loam-mono" title={JSON.stringify(value)?.slice(0, 2_000)}>
              <Text value={JSON.stringify(value) ?? ''} most={300} />
            </dd>
          </React.Fragment>
        ))}
      </dl>
    </>
  );
}

function Written({ detail }: Props): JSX.Element | null {
  const { trans, actions } = useFace();
  const written = detail.snapshots.filter(snapshot => snapshot.snapshotId);
  if (!written.length) {
    return null;
  }
  return (
    <>
      <h2>{trans.__('Tables written')}</h2>
      {written.slice(0, 100).map(snapshot => {
        const { added, deleted } = rowsOf(snapshot);
        return (
          <div key={`${snapshot.table}/${snapshot.snapshotId}`} className="jp-loam-written">
            <button type="button" className="jp-loam-link" onClick={() => actions.openTable(snapshot.table)}>
              <Text value={snapshot.table} />
            </button>{' '}
            <span className="jp-loam-sub">
              <Text value={snapshot.operation} />
            </span>{' '}
            {added ? <span className="jp-loam-plus">+{count(added)}</span> : null}{' '}
            {deleted ? <span className="jp-loam-minus">−{count(deleted)}</span> : null}
            {added || deleted ? ` ${trans.__('rows')} ` : ' '}
            <span className="jp-loam-mono" title={snapshot.snapshotId}>
              {snapshot.snapshotId.slice(0, 6)}
            </span>
            {snapshot.claim === Claim.CERTAIN ? null : (
              <span className="jp-loam-sub"> {trans.__('one of several writers')}</span>
            )}
          </div>
        );
      })}
    </>
  );
}

/** Files that the run names in its result, if it does. */
function Files({ detail }: Props): JSX.Element | null {
  const { trans } = useFace();
  const result = record(detail.outcome?.result ?? new Uint8Array());
  const files = Array.isArray(result.files) ? result.files.slice(0, 100) : [];
  if (!files.length) {
    return null;
  }
  return (
    <>
      <h2>{trans.__('Output files')}</h2>
      <ul className="jp-loam-plain">
        {files.map((file, place) => (
          <li key={place}>
            <Text value={typeof file === 'string' ? file : String((file as { path?: unknown }).path ?? '')} most={300} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Result({ detail }: Props): JSX.Element | null {
  const { trans } = useFace();
  const { outcome } = detail;
  const text = outcome ? new TextDecoder().decode(outcome.result.slice(0, 5_000)) : '';
  if (!outcome || ((!text || text === 'null') && !outcome.blob)) {
    return null;
  }
  return (
    <>
      <h2>{trans.__('Result')}</h2>
      <div className="jp-loam-mono jp-loam-wrap">
        {outcome.blob ? trans.__('%1, kept aside', size(Number(outcome.blob.sizeBytes))) : <Text value={text} most={1_000} />}
      </div>
    </>
  );
}

function Where({ job, detail, payload }: Props): JSX.Element {
  const { trans } = useFace();
  const last = detail.attempts.at(-1);
  const facts: [string, string][] = [
    [trans.__('queue'), job.attached ? '' : job.queue],
    [trans.__('worker'), job.worker || last?.worker || ''],
    [trans.__('lease'), job.epoch ? String(job.epoch) : ''],
    [trans.__('folder'), typeof payload.cwd === 'string' ? payload.cwd : ''],
    [trans.__('Python'), typeof payload.python === 'string' ? payload.python : ''],
    [trans.__('versions'), last?.versions ?? ''],
    [trans.__('time limit'), job.timeoutMs ? duration(Number(job.timeoutMs)) : ''],
    [trans.__('tags'), job.tags.join(', ')],
    [trans.__('submitted'), instant(Number(job.createdAtMs))],
    [trans.__('retry of'), job.retryOf.slice(0, 13)]
  ];
  return (
    <>
      <h2>{hasEnded(job) ? trans.__('Where it ran') : trans.__('Where it runs')}</h2>
      <dl className="jp-loam-dl wraps">
        {facts
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <React.Fragment key={name}>
              <dt>{name}</dt>
              <dd title={value}>{breakable(value)}</dd>
            </React.Fragment>
          ))}
      </dl>
    </>
  );
}

/** A path breaks behind a slash, where it must. */
function breakable(value: string): React.ReactNode[] {
  return value.slice(0, 1_000).split(/(?<=\/)/).map((part, place) => (
    <React.Fragment key={place}>
      <Text value={part} most={200} />
      <wbr />
    </React.Fragment>
  ));
}
