/** Attempts as lanes on one axis of time; the table says the same in words. */
import * as React from 'react';
import type { Attempt, Job } from '../../gen/loam/jobs/v1/jobs_pb';
import type { AttemptWord } from '../../model/state';
import { ATTEMPT_GLYPH } from '../../model/state';
import { timeline } from '../../model/timeline';
import type { Trans } from '../../model/words';
import { clock, count, duration, instant } from '../../model/words';
import { Text } from '../bits';
import { useFace } from '../face';

const MOST = 200;

const BAR: Record<AttemptWord, string> = {
  running: 'go',
  succeeded: '',
  failed: 'bad',
  'given back': 'back',
  cancelled: 'back',
  lost: 'bad'
};

export function Attempts(props: { job: Job; attempts: readonly Attempt[]; nowMs: number }): JSX.Element | null {
  const { job, attempts, nowMs } = props;
  const { trans } = useFace();
  if (!attempts.length) {
    return null;
  }
  const shown = attempts.slice(-MOST);
  const drawn = timeline(job, shown, nowMs);
  const [from, to] = [clock(drawn.fromMs), clock(drawn.toMs)];
  return (
    <section aria-label={trans.__('Attempts')}>
      <h2>
        {trans.__('Attempts')}{' '}
        <span className="jp-loam-sub">
          {[
            drawn.givenBack ? trans.__('%1 counted, %2 given back', count(drawn.counted), count(drawn.givenBack)) : '',
            attempts.length > MOST ? trans.__('the last %1 shown', String(MOST)) : ''
          ]
            .filter(Boolean)
            .join(', ')}
        </span>
      </h2>
      <table className="jp-loam-gantt">
        <tbody>
          {drawn.lanes.map(lane => (
            <tr key={String(lane.attempt.epoch)}>
              <td className="r">{lane.number}</td>
              <td>
                <span className={`jp-loam-st ${ATTEMPT_GLYPH[lane.word]}`}>{wordOfAttempt(lane.word, trans)}</span>
              </td>
              <td className="src" title={lane.attempt.worker}>
                {lane.attempt.failure ? (
                  <Text
                    value={`${lane.attempt.failure.kind}: ${lane.attempt.failure.message.split('\n', 1)[0]}`}
                    most={200}
                  />
                ) : (
                  <Text value={lane.attempt.worker} most={100} />
                )}
              </td>
              <td className="t">
                <i
                  className={BAR[lane.word]}
                  style={{ left: `${lane.left}%`, width: `${lane.width}%` }}
                  title={instant(Number(lane.attempt.startedAtMs))}
                />
                {lane.waitWidth > 0 ? (
                  <i className="wait" style={{ left: `${lane.left + lane.width}%`, width: `${lane.waitWidth}%` }} />
                ) : null}
              </td>
              <td className="r">{duration(lane.tookMs)}</td>
            </tr>
          ))}
          <tr aria-hidden="true">
            <td colSpan={3} />
            <td className="t">
              <div className="jp-loam-axis">
                <span style={{ left: '0%' }}>{from}</span>
                {from === to ? null : <span style={{ left: '100%' }}>{to}</span>}
              </div>
            </td>
            <td />
          </tr>
        </tbody>
      </table>
    </section>
  );
}

function wordOfAttempt(word: AttemptWord, trans: Trans): string {
  switch (word) {
    case 'running':
      return trans.__('running');
    case 'succeeded':
      return trans.__('succeeded');
    case 'failed':
      return trans.__('failed');
    case 'given back':
      return trans.__('given back');
    case 'cancelled':
      return trans.__('cancelled');
    case 'lost':
      return trans.__('lost');
  }
}
