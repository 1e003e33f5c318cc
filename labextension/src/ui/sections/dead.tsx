/** Dead letters: runs that failed while nobody waited. Redriven one, selected, or all of a filter. */
import * as React from 'react';
import { Jobs } from '../../gen/loam/jobs/v1/service_pb';
import { count, plain } from '../../model/words';
import { Button, Search, Text, When, useNow, useSignal } from '../bits';
import { useFace } from '../face';
import type { Section } from '../section';
import { Note, useRead, useTicks } from '../section';

const MOST = 50;

function Summary(): JSX.Element {
  const { loam, trans } = useFace();
  useSignal(loam.changed, change => change === 'counts');
  const dead = Number(loam.counts?.deadLetters ?? 0n);
  if (!dead) {
    return <>{trans.__('none')}</>;
  }
  return (
    <b className="jp-loam-badge" role="status" aria-label={trans._n('%1 dead letter', '%1 dead letters', dead, count(dead))}>
      {count(dead)}
    </b>
  );
}

function Body(): JSX.Element {
  const { loam, trans, actions } = useFace();
  const [text, setText] = React.useState('');
  const [chosen, setChosen] = React.useState<ReadonlySet<string>>(new Set());
  const [changes, setChanges] = React.useState(0);
  const nowMs = useNow(false);
  const ticks = useTicks();
  const { value, error } = useRead(
    () => loam.call(Jobs.method.list, { deadLetters: true, text, limit: MOST }),
    `${ticks}/${changes}/${text}`
  );
  const jobs = value?.jobs ?? [];
  const here = jobs.filter(job => chosen.has(job.id)).map(job => job.id);
  const then = () => {
    setChosen(new Set());
    setChanges(before => before + 1);
  };
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) {
      next.add(id);
    }
    setChosen(next);
  };
  return (
    <>
      <div className="jp-loam-filter">
        <Search
          label={trans.__('Filter dead letters by name')}
          placeholder={trans.__('Filter dead letters')}
          value={text}
          onChange={setText}
        />
      </div>
      {error ? (
        <Note>
          <Text value={error} />
        </Note>
      ) : null}
      <ul className="jp-loam-plain">
        {jobs.map(job => (
          <li key={job.id} className="jp-loam-line dead">
            {loam.canWrite ? (
              <input
                type="checkbox"
                checked={chosen.has(job.id)}
                onChange={() => toggle(job.id)}
                aria-label={trans.__('Select %1', plain(job.task?.name ?? ''))}
              />
            ) : (
              <span />
            )}
            <button type="button" className="jp-loam-link jp-loam-cut" title={job.error} onClick={() => actions.open(job.id)}>
              <Text value={job.task?.name ?? ''} most={120} />
            </button>
            <When className="jp-loam-sub" atMs={Number(job.finishedAtMs)} nowMs={nowMs} />
            <span className="jp-loam-sub jp-loam-cut why">
              <Text value={job.error} most={160} />
            </span>
          </li>
        ))}
      </ul>
      {value?.next ? (
        <Note>{trans.__('%1 shown, more exist', String(MOST))}</Note>
      ) : null}
      {loam.canWrite && jobs.length ? (
        <div className="jp-loam-chips">
          <Button
            kind="small"
            label={trans.__('Redrive selected (%1)', String(here.length))}
            disabled={!here.length}
            onClick={() => void actions.redrive({ jobIds: here }).then(then)}
          />
          <Button
            kind="small"
            label={text ? trans.__('Redrive all of these…') : trans.__('Redrive all…')}
            onClick={() => void actions.redrive({ text }).then(then)}
          />
          <Button
            kind="small quiet"
            label={trans.__('Dismiss selected')}
            disabled={!here.length}
            onClick={() => void actions.dismiss({ jobIds: here }).then(then)}
          />
        </div>
      ) : null}
    </>
  );
}

export const dead: Section = {
  id: 'dead',
  title: ({ trans }) => trans.__('Dead letters'),
  Summary,
  Body,
  isOpen: false
};
