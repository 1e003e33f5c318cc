/** Queues: how many wait and how long, the last minute's rate, pause and resume. */
import * as React from 'react';
import type { Queue } from '../../gen/loam/jobs/v1/jobs_pb';
import { Jobs } from '../../gen/loam/jobs/v1/service_pb';
import type { Trans } from '../../model/words';
import { age, count, whole } from '../../model/words';
import { Button, Text } from '../bits';
import { useFace } from '../face';
import type { Section } from '../section';
import { Note, useRead, useTicks } from '../section';

const HISTORY = 60;
/** What waited at each look, newest last; drawn as a line. */
const history = new Map<string, number[]>();

function useQueues(): Queue[] {
  const { loam } = useFace();
  const { value } = useRead(() => loam.shared(Jobs.method.queues), useTicks());
  return value?.queues ?? [];
}

function Summary(): JSX.Element {
  const { trans } = useFace();
  const queues = useQueues();
  const paused = queues.filter(queue => queue.paused).length;
  if (!queues.length) {
    return <>{trans.__('none yet')}</>;
  }
  return <>{paused ? trans._n('%1 paused', '%1 paused', paused, String(paused)) : trans.__('all moving')}</>;
}

function Body(): JSX.Element {
  const { loam, trans, actions } = useFace();
  const [changes, setChanges] = React.useState(0);
  const ticks = useTicks();
  const { value, error } = useRead(async () => {
    const found = await loam.shared(Jobs.method.queues);
    for (const queue of found.queues) {
      const seen = [...(history.get(queue.name) ?? []), Number(queue.waiting)];
      history.set(queue.name, seen.slice(-HISTORY));
    }
    return found;
  }, `${ticks}/${changes}`);
  if (error) {
    return (
      <Note>
        <Text value={error} />
      </Note>
    );
  }
  return (
    <ul className="jp-loam-plain">
      {(value?.queues ?? []).map(queue => (
        <li key={queue.name} className="jp-loam-line q">
          <span className={`jp-loam-cut${queue.paused ? ' jp-loam-st jp-loam-pause' : ''}`}>
            <Text value={queue.name} />
          </span>
          <Spark seen={history.get(queue.name) ?? []} trans={trans} />
          <span className="jp-loam-sub" title={signals(queue, trans)}>
            {queue.paused ? `${trans.__('paused')}, ` : ''}
            {trans.__('%1 wait', count(queue.waiting))}
            {queue.waiting && !queue.paused ? `, ${age(0, Number(queue.oldestWaitingMs))}` : ''}
          </span>
          {loam.canWrite ? (
            <Button
              kind="icon"
              icon={queue.paused ? 'play' : 'pause'}
              label={queue.paused ? trans.__('Resume queue %1', queue.name) : trans.__('Pause queue %1', queue.name)}
              onClick={() =>
                void actions.setPaused(queue.name, !queue.paused).then(() => setChanges(before => before + 1))
              }
            />
          ) : (
            <span />
          )}
        </li>
      ))}
    </ul>
  );
}

function signals(queue: Queue, trans: Trans): string {
  return [
    trans.__('%1 wait, the oldest for %2', count(queue.waiting), whole(Number(queue.oldestWaitingMs))),
    trans.__('%1 run, %2 scheduled', count(queue.running), count(queue.scheduled)),
    trans.__('last minute: %1 succeeded, %2 failed', count(queue.succeededPerMinute), count(queue.failedPerMinute)),
    trans.__('from due to started: half within %1, 99 % within %2', whole(Number(queue.waitP50Ms)), whole(Number(queue.waitP99Ms))),
    trans.__('%1 dead letters', count(queue.deadLetters))
  ].join('\n');
}

function Spark(props: { seen: number[]; trans: Trans }): JSX.Element {
  const { seen, trans } = props;
  const most = Math.max(1, ...seen);
  const step = 72 / (HISTORY - 1);
  const points = seen.map((value, place) => `${(72 - (seen.length - 1 - place) * step).toFixed(1)},${(15 - (value / most) * 13).toFixed(1)}`);
  const label = trans.__('waiting, since this page was opened: now %1, highest %2', String(seen[seen.length - 1] ?? 0), String(Math.max(0, ...seen)));
  return (
    <svg className="jp-loam-spark" viewBox="0 0 72 16" role="img" aria-label={label}>
      <path d={points.length > 1 ? `M${points.join('L')}` : 'M70 15h2'} />
    </svg>
  );
}

export const queues: Section = {
  id: 'queues',
  title: ({ trans }) => trans.__('Queues'),
  Summary,
  Body,
  isOpen: true
};
