/** One run in the sidebar: what it is, how it stands, since when. */
import * as React from 'react';
import type { Job } from '../gen/loam/jobs/v1/jobs_pb';
import { JobState } from '../gen/loam/jobs/v1/jobs_pb';
import { fractionOf, hasEnded, lengthMs, newsIn, wordOf } from '../model/state';
import type { Trans } from '../model/words';
import { age, clock, day, duration, plain, whole } from '../model/words';
import { Bar, Glyph, Text, When, wordIn } from './bits';

/** What stands right of the name: how far, how long, how soon. */
export function figure(job: Job, nowMs: number, trans: Trans): string {
  const word = wordOf(job);
  if (word === 'queued') {
    return trans.__('waits %1', whole(nowMs - Number(job.runAtMs)));
  }
  if (word === 'retrying' || word === 'scheduled') {
    return trans.__('in %1', whole(Math.max(0, Number(job.runAtMs) - nowMs)));
  }
  if (job.state === JobState.RUNNING) {
    const fraction = fractionOf(job);
    return fraction === undefined ? whole(lengthMs(job, nowMs)) : `${Math.floor(fraction * 100)} %`;
  }
  return hasEnded(job) && job.startedAtMs ? duration(lengthMs(job, nowMs)) : '';
}

/** What stands after the state: place, why, engine, how far. */
export function facts(job: Job, trans: Trans): string[] {
  const found: string[] = [];
  const word = wordOf(job);
  if (word === 'queued' && job.position) {
    found.push(
      job.position > 1_000 ? trans.__('position over 1,000') : trans.__('position %1', String(job.position))
    );
  }
  const hasFailed = word === 'failed' || word === 'dead letter';
  if (hasFailed || word === 'retrying') {
    found.push(job.error);
  }
  found.push(job.task?.engine ?? '');
  const most = job.retry?.maxAttempts ?? 1;
  if (job.attempts > 1 || word === 'retrying') {
    found.push(trans.__('attempt %1 of %2', String(job.attempts), String(Math.max(most, job.attempts))));
  }
  if (job.state === JobState.RUNNING && job.progress?.text) {
    found.push(newsIn(job.progress.text));
  }
  return found.filter(Boolean);
}

interface Props {
  job: Job;
  id: string;
  place: number;
  total: number;
  nowMs: number;
  isActive: boolean;
  mine: string;
  /** Who asked it to stop, where that is known. */
  stopper: string;
  trans: Trans;
  onAct?: () => void;
}

function Row(props: Props): JSX.Element {
  const { job, nowMs, trans, isActive, mine, stopper } = props;
  const word = wordOf(job);
  const name = job.task?.name ?? '';
  const fraction = fractionOf(job);
  const created = Number(job.createdAtMs);
  const isStopped = word === 'cancelled' || word === 'cancelling';
  const said = [
    ...(isStopped && stopper && stopper !== mine ? [trans.__('stopped by %1', stopper)] : []),
    ...facts(job, trans),
    ...(mine && job.actor !== mine ? [trans.__('by %1', job.actor)] : [])
  ];
  const isToday = day(created) === day(nowMs);
  return (
    <div
      id={props.id}
      className="jp-loam-row"
      role="option"
      aria-selected={isActive}
      aria-posinset={props.place + 1}
      aria-setsize={props.total}
      aria-label={[
        plain(name, { most: 120 }),
        wordIn(trans, word),
        ...said.map(one => plain(one, { most: 200 })),
        figure(job, nowMs, trans),
        isToday ? age(created, nowMs) : clock(created)
      ].join(', ')}
      data-run={job.id}
      data-state={word}
    >
      <Glyph word={word} fraction={fraction} />
      <span className="nm" title={plain(name, { most: 500 })}>
        <Text value={name} most={200} />
      </span>
      {word === 'dead letter' && props.onAct ? (
        <span className="act" aria-hidden="true" onClick={props.onAct} title={trans.__('Put it back in its queue')}>
          {trans.__('Redrive')}
        </span>
      ) : (
        <span className="jp-loam-n jp-loam-sub">{figure(job, nowMs, trans)}</span>
      )}
      <span className="jp-loam-sub">
        <b>{wordIn(trans, word)}</b>
        {said.map((one, place) => (
          <span key={place} className="d">
            <Text value={one} most={160} />
          </span>
        ))}
      </span>
      {isToday ? (
        <When className="jp-loam-sub" atMs={created} nowMs={nowMs} />
      ) : (
        <time className="jp-loam-sub">{clock(created).slice(0, 5)}</time>
      )}
      {fraction === undefined ? null : <Bar fraction={fraction} label={trans.__('progress')} />}
    </div>
  );
}

/** Drawn again only when the run, the second (while it counts) or the selection changes. */
export const RunRow = React.memo(
  Row,
  (before, after) =>
    before.job === after.job &&
    before.isActive === after.isActive &&
    before.place === after.place &&
    before.total === after.total &&
    before.mine === after.mine &&
    before.stopper === after.stopper &&
    (before.nowMs === after.nowMs || (hasEnded(after.job) && after.nowMs - before.nowMs < 10_000))
);
