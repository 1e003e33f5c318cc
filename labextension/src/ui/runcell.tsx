/** A run in its cell. The saved bundle is shown first; then the run is followed by its id, whoever runs it now. */
import * as React from 'react';
import type { Snapshot } from '../gen/loam/jobs/v1/jobs_pb';
import { JobState } from '../gen/loam/jobs/v1/jobs_pb';
import type { SavedRun } from '../model/bundle';
import { isSameCode } from '../model/bundle';
import type { Followed } from '../model/followed';
import type { Word } from '../model/state';
import { GLYPH, fractionOf, hasEnded, lengthMs, newsIn, record, rowsOf, wordOf } from '../model/state';
import { ago, count, duration, instant, whole } from '../model/words';
import { Bar, Button, Glyph, Text, useNow, useSignal, wordIn } from './bits';
import { useFace } from './face';
import { figure } from './runrow';

interface Props {
  saved: SavedRun;
  /** The code of the cell that it stands in. */
  source: () => string;
}

export function RunCell(props: Props): JSX.Element {
  const { saved, source } = props;
  const { loam } = useFace();
  const [run, setRun] = React.useState<Followed | null>(null);
  React.useEffect(() => {
    if (!saved.runId) {
      setRun(null);
      return undefined;
    }
    const one = loam.follow(saved.runId);
    setRun(one);
    return () => loam.release(one);
  }, [loam, saved.runId]);
  return run ? <Live saved={saved} run={run} source={source} /> : <Saved saved={saved} note="" />;
}

function Live(props: Props & { run: Followed }): JSX.Element {
  const { saved, run, source } = props;
  const { loam, trans, actions } = useFace();
  useSignal(run.changed);
  useSignal(loam.changed, change => change === 'server' || change === 'rights');
  const { job, detail } = run;
  const nowMs = useNow(job !== null && !hasEnded(job));
  if (!job || !detail) {
    return <Saved saved={saved} note={run.isUnknown ? trans.__('as saved; this server does not know the run') : ''} />;
  }
  const word = wordOf(job);
  const isLost = loam.server.kind === 'lost' && !hasEnded(job);
  const fraction = fractionOf(job);
  const time = job.state === JobState.RUNNING ? whole(lengthMs(job, nowMs)) : figure(job, nowMs, trans);
  const place = word === 'queued' && job.position ? `${trans.__('position %1', String(job.position))}, ` : '';
  const payload = record(detail.job?.task?.payload ?? new Uint8Array());
  const mayAct = loam.canWrite === true && isSameCode(source(), payload.source);
  const news = job.state === JobState.RUNNING ? newsIn(job.progress?.text ?? '') : '';
  const failure = detail.outcome?.failure;
  const error = hasEnded(job) && failure ? `${failure.kind}: ${failure.message}` : hasEnded(job) ? job.error : '';
  return (
    <section
      className={`jp-loam-run${isLost ? ' jp-loam-stale' : ''}`}
      role="region"
      aria-label={trans.__('Run %1: %2', job.task?.name ?? '', wordIn(trans, word))}
      data-run={job.id}
      data-state={word}
    >
      <header className="jp-loam-runline">
        <Glyph word={word} fraction={fraction}>
          <span>{wordIn(trans, word)}</span>
        </Glyph>
        <span className="jp-loam-facts">
          <Fact value={job.task?.name ?? ''} />
          {time ? <span>{`${place}${time}`}</span> : null}
          {job.attempts > 1 ? <span>{trans.__('attempt %1', String(job.attempts))}</span> : null}
          {job.task?.engine ? <Fact value={job.task.engine} /> : null}
          {news ? <Fact value={news} /> : null}
          {hasEnded(job) ? <span title={instant(Number(job.createdAtMs))}>{ago(Number(job.createdAtMs), nowMs, trans)}</span> : null}
          {isLost ? <span>{trans.__('server lost, as last seen')}</span> : null}
        </span>
        <span className="jp-loam-acts">
          {fraction === undefined ? null : <b className="jp-loam-n">{Math.floor(fraction * 100)} %</b>}
          {mayAct && !hasEnded(job) && word !== 'cancelling' ? (
            <Button kind="small" icon="stop" label={trans.__('Cancel')} onClick={() => void actions.cancel([job.id])} />
          ) : null}
          <Button kind="icon" icon="open" label={trans.__('Open run')} onClick={() => actions.open(job.id)} />
        </span>
      </header>
      {fraction === undefined ? null : <Bar fraction={fraction} label={trans.__('progress')} />}
      <ErrorLine error={error} />
      {detail.snapshots
        .filter(snapshot => snapshot.snapshotId)
        .slice(0, 20)
        .map(snapshot => (
          <Wrote key={`${snapshot.table}/${snapshot.snapshotId}`} snapshot={snapshot} />
        ))}
    </section>
  );
}

/** What the file says, where the server says nothing. */
function Saved(props: { saved: SavedRun; note: string }): JSX.Element {
  const { saved, note } = props;
  const { trans } = useFace();
  const known = (Object.keys(GLYPH) as Word[]).find(word => word === saved.state);
  return (
    <section className="jp-loam-run" role="region" aria-label={trans.__('Run %1: %2', saved.name, saved.state)} data-state={saved.state}>
      <header className="jp-loam-runline">
        <Glyph word={known ?? 'unknown'} fraction={saved.fraction ?? undefined}>
          <span>{known ? wordIn(trans, known) : <Text value={saved.state || '?'} />}</span>
        </Glyph>
        <span className="jp-loam-facts">
          <Fact value={saved.name} />
          {saved.elapsedMs ? <span>{duration(saved.elapsedMs)}</span> : null}
          {saved.text ? <Fact value={saved.text} /> : null}
          {note ? <span>{note}</span> : null}
        </span>
      </header>
      <ErrorLine error={saved.error} />
      {saved.snapshots.slice(0, 20).map((snapshot, place) => (
        <div key={place} className="jp-loam-wrote">
          <span className="jp-loam-sub">{trans.__('wrote')}</span>
          <Text value={snapshot.table} />
          <span className="jp-loam-sub">
            <Text value={snapshot.operation} />
          </span>
          <span className="jp-loam-mono">
            <Text value={snapshot.snapshotId} />
          </span>
        </div>
      ))}
    </section>
  );
}

function Fact(props: { value: string }): JSX.Element {
  return (
    <span>
      <Text value={props.value} most={200} />
    </span>
  );
}

function ErrorLine(props: { error: string }): JSX.Element | null {
  const lines = props.error.trim().split('\n');
  if (!props.error) {
    return null;
  }
  return (
    <div className="jp-loam-error small" role="alert">
      <Text value={lines.slice(0, 6).join('\n') + (lines.length > 6 ? '\n…' : '')} lines most={2_000} />
    </div>
  );
}

function Wrote(props: { snapshot: Snapshot }): JSX.Element {
  const { snapshot } = props;
  const { trans, actions } = useFace();
  const { added, deleted } = rowsOf(snapshot);
  return (
    <div className="jp-loam-wrote">
      <span className="jp-loam-sub">{trans.__('wrote')}</span>
      <button type="button" className="jp-loam-link" onClick={() => actions.openTable(snapshot.table)}>
        <Text value={snapshot.table} />
      </button>
      {added ? <span className="jp-loam-plus">+{count(added)}</span> : null}
      {deleted ? <span className="jp-loam-minus">−{count(deleted)}</span> : null}
      <span>{trans.__('rows')}</span>
      <span className="jp-loam-sub">
        <Text value={snapshot.operation} />
      </span>
      <span className="jp-loam-mono" title={snapshot.snapshotId}>
        {snapshot.snapshotId.slice(0, 6)}
      </span>
    </div>
  );
}
