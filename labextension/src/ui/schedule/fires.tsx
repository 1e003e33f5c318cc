/** The next fires of a rule as one types it: in its zone and in UTC, with what clocks do. */
import * as React from 'react';
import type { Fire } from '../../gen/loam/jobs/v1/schedules_pb';
import { Jobs } from '../../gen/loam/jobs/v1/service_pb';
import type { Draft, Problems } from '../../model/draft';
import { ruleOf } from '../../model/draft';
import type { Clocks } from '../../model/fires';
import { lines } from '../../model/fires';
import type { Trans } from '../../model/words';
import { Text } from '../bits';
import { useFace } from '../face';

const PAUSE_MS = 250;

export interface Preview {
  fires: readonly Fire[];
  /** The rule in words; the last that was right, while the typed one is not. */
  words: string;
  /** What is wrong with the rule, as the server says it. */
  error: string;
  /** What is wrong before it is sent, by field. */
  problems: Problems;
  isAsking: boolean;
}

/** What the server says of the rule, a moment after the last key. */
export function usePreview(draft: Draft | null): Preview {
  const { loam } = useFace();
  const [preview, setPreview] = React.useState<Preview>({ fires: [], words: '', error: '', problems: {}, isAsking: true });
  const key = draft
    ? JSON.stringify([draft.when, draft[draft.when === 'once' ? 'once' : draft.when], draft.zone, draft.start, draft.end])
    : '';
  React.useEffect(() => {
    if (!draft) {
      return;
    }
    const problems: Problems = {};
    const rule = ruleOf(draft, problems);
    if (Object.keys(problems).length) {
      setPreview(old => ({ ...old, error: '', problems, isAsking: false }));
      return;
    }
    let isWanted = true;
    setPreview(old => ({ ...old, problems, isAsking: true }));
    const timer = setTimeout(() => {
      loam.call(Jobs.method.previewSchedule, { rule, count: 10 }).then(
        ({ fires, words }) => isWanted && setPreview({ fires, words, error: '', problems, isAsking: false }),
        (error: unknown) =>
          isWanted &&
          setPreview(old => ({
            ...old,
            error: error instanceof Error ? error.message : String(error),
            problems,
            isAsking: false
          }))
      );
    }, PAUSE_MS);
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
    // What the rule depends on is in the key.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [loam, key]);
  return preview;
}

export function Fires(props: { fires: readonly Fire[]; zone: string; isOld?: boolean }): JSX.Element {
  const { fires, zone, isOld } = props;
  const { trans } = useFace();
  const isUtc = zone === 'UTC';
  const title = fires.length === 10 ? trans.__('Next ten fires') : trans.__('Next fires');
  return (
    <>
      <h2>{title}</h2>
      {fires.length ? (
        <table className={`jp-loam-grid jp-loam-fires${isOld ? ' jp-loam-stale' : ''}`} aria-label={title}>
          <thead>
            <tr>
              <td />
              <th scope="col">{trans.__('day')}</th>
              <th scope="col">
                <Text value={zone} most={60} />
              </th>
              {isUtc ? null : <th scope="col">UTC</th>}
            </tr>
          </thead>
          <tbody>
            {lines(fires).map((line, place) => (
              <React.Fragment key={String(line.fire.atMs)}>
                <tr className={line.clocks ? 'jp-loam-note' : ''}>
                  <td className="r jp-loam-sub">{place + 1}</td>
                  <td>{line.day}</td>
                  <td title={line.fire.local}>
                    <b>{line.time}</b> {isUtc ? null : <span className="jp-loam-sub">{line.offset}</span>}
                  </td>
                  {isUtc ? null : (
                    <td className="jp-loam-sub" title={line.fire.utc}>
                      {line.utc}
                    </td>
                  )}
                </tr>
                {line.clocks ? (
                  <tr className="jp-loam-note">
                    <td />
                    <td colSpan={3}>
                      <span className="jp-loam-st jp-loam-warn">{turned(line.clocks, line.time, trans)}</span>
                    </td>
                  </tr>
                ) : null}
              </React.Fragment>
            ))}
          </tbody>
        </table>
      ) : (
        <p className="jp-loam-sub">{trans.__('None: it fires no more.')}</p>
      )}
    </>
  );
}

function turned(clocks: Clocks, time: string, trans: Trans): string {
  if (clocks.gap) {
    return trans.__('Clocks go forward: %1 does not exist, so it fires at %2.', clocks.gap, time);
  }
  switch (clocks.turn) {
    case 'forward':
      return trans.__('Clocks go forward within half a day of it.');
    case 'back':
      return trans.__('Clocks go back within half a day of it.');
    case 'change':
      return trans.__('Clocks change within half a day of it.');
  }
}
