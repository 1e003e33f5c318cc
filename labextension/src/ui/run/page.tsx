/** A run by itself. Why did it fail, what mends it? Then what it did, printed, ran with and wrote. */
import * as React from 'react';
import type { Job } from '../../gen/loam/jobs/v1/jobs_pb';
import { JobState } from '../../gen/loam/jobs/v1/jobs_pb';
import type { GetResponse } from '../../gen/loam/jobs/v1/service_pb';
import { Jobs } from '../../gen/loam/jobs/v1/service_pb';
import { scheduleOf } from '../../model/filter';
import type { Followed } from '../../model/followed';
import { fractionOf, hasEnded, lengthMs, newsIn, record, wordOf } from '../../model/state';
import type { Trans } from '../../model/words';
import { ago, count, duration, instant, whole } from '../../model/words';
import { Banner } from '../banner';
import { Bar, Button, Glyph, Text, useNow, useSignal, wordIn } from '../bits';
import { useFace } from '../face';
import { useRead } from '../section';
import { Attempts } from './attempts';
import { Cells } from './cells';
import { Code } from './code';
import { ErrorBlock } from './error';
import { Facts } from './facts';
import { LogView } from './log';
import { Waits } from './waits';

export function RunPage(props: { run: Followed }): JSX.Element {
  const { run } = props;
  const { loam, trans } = useFace();
  useSignal(run.changed);
  useSignal(loam.changed, change => change === 'rights' || change === 'server');
  const nowMs = useNow(run.job !== null && !hasEnded(run.job));
  const title = React.useId();
  if (!run.job || !run.detail) {
    return (
      <article className="jp-loam-page">
        <Banner />
        {run.error && loam.server.kind !== 'lost' ? (
          <div className="jp-loam-notice bad" role="alert">
            <span>
              {run.isUnknown ? trans.__('This server knows no such run. It may have been deleted, or the link is of another server.') : ''}{' '}
              <Text value={run.isUnknown ? run.id : run.error} most={500} />
            </span>
          </div>
        ) : (
          <p role="status">{trans.__('Reading the run…')}</p>
        )}
      </article>
    );
  }
  const { job, detail } = run;
  const word = wordOf(job);
  const fraction = fractionOf(job);
  const payload = record(detail.job?.task?.payload ?? new Uint8Array());
  return (
    <article className={`jp-loam-page${loam.server.kind === 'lost' ? ' jp-loam-stale' : ''}`} aria-labelledby={title}>
      <Banner />
      <header className="jp-loam-title">
        <Glyph word={word} fraction={fraction} />
        <h1 id={title}>
          <Text value={job.task?.name ?? ''} most={300} />
        </h1>
        <Acts job={job} />
      </header>
      <Head job={job} detail={detail} nowMs={nowMs} />
      <p className="jp-loam-live" role="status" aria-live="polite">
        {wordIn(trans, word)}
      </p>
      {fraction === undefined ? null : <Bar fraction={fraction} label={trans.__('progress')} />}
      {word === 'queued' ? <Waits job={job} /> : null}
      <ErrorBlock job={job} detail={detail} />
      <div className="jp-loam-two">
        <div>
          <Cells job={job} detail={detail} />
          <Attempts job={job} attempts={detail.attempts} nowMs={nowMs} />
          <LogView job={job} />
          <Code payload={payload} />
        </div>
        <aside aria-label={trans.__('Facts')}>
          <Facts job={job} detail={detail} payload={payload} />
          <Line job={job} />
        </aside>
      </div>
    </article>
  );
}

function Head(props: { job: Job; detail: GetResponse; nowMs: number }): JSX.Element {
  const { job, nowMs } = props;
  const { loam, trans, actions } = useFace();
  const word = wordOf(job);
  const isStopped = word === 'cancelled' || word === 'cancelling';
  const stopper = isStopped ? loam.cancelledBy.get(job.id) || props.detail.stoppedBy : '';
  const started = Number(job.startedAtMs);
  const fraction = fractionOf(job);
  const most = Math.max(job.retry?.maxAttempts ?? 1, job.attempts);
  const facts: (JSX.Element | string)[] = [
    <span key="word">
      <b>{wordIn(trans, word)}</b>
      {most > 1 && (hasEnded(job) || word === 'retrying') && job.attempts
        ? ` ${trans.__('after %1 of %2 attempts', String(job.attempts), String(most))}`
        : ''}
      {fraction === undefined ? '' : `, ${Math.floor(fraction * 100)} %`}
      {word === 'queued' && job.position ? `, ${place(job.position, trans)}` : ''}
      {word === 'retrying' || word === 'scheduled'
        ? `${most > 1 && job.attempts ? ',' : ''} ${trans.__('in %1', whole(Math.max(0, Number(job.runAtMs) - nowMs)))}`
        : ''}
    </span>,
    <span key="when" title={`${instant(Number(job.createdAtMs))}${job.finishedAtMs ? ` – ${instant(Number(job.finishedAtMs))}` : ''}`}>
      {ago(Number(job.createdAtMs), nowMs, trans)}
      {started && (hasEnded(job) || job.state === JobState.RUNNING)
        ? `, ${hasEnded(job) ? trans.__('took %1', duration(lengthMs(job, nowMs))) : trans.__('runs for %1', whole(lengthMs(job, nowMs)))}`
        : ''}
    </span>
  ];
  const news = job.state === JobState.RUNNING ? newsIn(job.progress?.text ?? '') : '';
  if (news) {
    facts.push(<Text key="progress" value={news} most={200} />);
  }
  facts.push(
    <span key="engine">
      {job.task?.engine}
      {job.attached ? `, ${trans.__('in a kernel')}` : ''}
    </span>,
    <Text key="actor" value={trans.__('by %1', job.actor)} most={100} />,
    ...(stopper ? [<Text key="stopper" value={trans.__('stopped by %1', stopper)} most={100} />] : []),
    ...(scheduleOf(job)
      ? [
          <button key="schedule" type="button" className="jp-loam-link" onClick={() => actions.openSchedule(scheduleOf(job))}>
            {trans.__('of a schedule')}
          </button>
        ]
      : []),
    <span key="id" className="jp-loam-mono" title={job.id}>
      {job.id.slice(0, 13)}
    </span>
  );
  return (
    <div className="jp-loam-facts">
      {facts.map((fact, at) => (
        <span key={at}>{fact}</span>
      ))}
    </div>
  );
}

export function place(position: number, trans: Trans): string {
  return position > 1_000 ? trans.__('position over 1,000') : trans.__('position %1', count(position));
}

function Acts(props: { job: Job }): JSX.Element {
  const { job } = props;
  const { loam, trans, actions } = useFace();
  const word = wordOf(job);
  const isFailed = job.state === JobState.FAILED;
  return (
    <div className="jp-loam-acts" role="toolbar" aria-label={trans.__('Actions')}>
      {loam.canWrite && !hasEnded(job) && word !== 'cancelling' ? (
        <Button icon="stop" label={trans.__('Cancel')} onClick={() => void actions.cancel([job.id])} />
      ) : null}
      {loam.canWrite && hasEnded(job) && !job.attached ? (
        <>
          {job.deadLetter ? (
            <Button kind="go" icon="again" label={trans.__('Redrive')} onClick={() => void actions.redrive({ jobIds: [job.id] })} />
          ) : (
            <Button kind={isFailed ? 'go' : ''} icon="again" label={trans.__('Retry')} onClick={() => void actions.retry(job.id)} />
          )}
          <Button label={trans.__('Retry with…')} title={trans.__('Retry with other parameters')} onClick={() => void actions.retryWith(job.id)} />
        </>
      ) : null}
      {loam.canWrite && job.deadLetter ? (
        <Button label={trans.__('Dismiss')} onClick={() => void actions.dismiss({ jobIds: [job.id] })} />
      ) : null}
      {loam.canWrite && hasEnded(job) ? (
        <Button kind="icon" icon="trash" label={trans.__('Delete…')} onClick={() => void actions.remove(job.id)} />
      ) : null}
      <Button kind="icon" icon="link" label={trans.__('Copy a link to this run')} onClick={() => actions.copyLink(job.id)} />
    </div>
  );
}

/** The runs that were made of each other by retries. */
function Line(props: { job: Job }): JSX.Element | null {
  const { job } = props;
  const { loam, trans, actions } = useFace();
  const { value } = useRead(
    () => loam.call(Jobs.method.list, { retryLine: job.rootId || job.id, limit: 50 }),
    `${job.id}/${job.state}`
  );
  const others = (value?.jobs ?? []).filter(other => other.id !== job.id);
  if (!others.length) {
    return null;
  }
  return (
    <>
      <h2>{trans.__('Tries of the same')}</h2>
      <ul className="jp-loam-plain">
        {others.map(other => (
          <li key={other.id}>
            <Glyph word={wordOf(other)} />{' '}
            <button type="button" className="jp-loam-link" onClick={() => actions.open(other.id)}>
              {other.id.slice(0, 13)}
            </button>{' '}
            <span className="jp-loam-sub">
              {wordIn(trans, wordOf(other))}, {instant(Number(other.createdAtMs))}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
