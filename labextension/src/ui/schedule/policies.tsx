/** Policies, explained by what they would do with the next fires of this rule. */
import * as React from 'react';
import type { Fire } from '../../gen/loam/jobs/v1/schedules_pb';
import { MissedPolicy, OverlapPolicy } from '../../gen/loam/jobs/v1/schedules_pb';
import type { Draft, Problems } from '../../model/draft';
import { gapMs, lines, outage } from '../../model/fires';
import { lengthOf } from '../../model/lengths';
import type { Trans } from '../../model/words';
import { duration } from '../../model/words';
import { useFace } from '../face';
import { Input, Line, Problem, Segments } from './fields';

interface Props {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  problems: Problems;
  fires: readonly Fire[];
  /** Of the runs that were; `count` 0 where there are none. */
  usual: { medianMs: number; count: number };
}

export function Missed({ draft, change, problems, fires }: Props): JSX.Element {
  const { trans } = useFace();
  const field = (name: 'lookBack' | 'cap') => ({
    value: draft[name],
    problem: problems[name],
    onChange: (value: string) => change({ [name]: value })
  });
  return (
    <Line label={trans.__('Missed ticks')}>
      <div className="jp-loam-inline">
        <Segments
          label={trans.__('Missed ticks')}
          value={draft.missed}
          choices={[
            { value: MissedPolicy.MISSED_SKIP, label: trans.__('Skip') },
            { value: MissedPolicy.MISSED_LATEST, label: trans.__('Latest') },
            { value: MissedPolicy.MISSED_ALL, label: trans.__('All') }
          ]}
          onChange={missed => change({ missed })}
        />
        {draft.missed === MissedPolicy.MISSED_SKIP ? null : (
          <>
            <span className="jp-loam-sub">{trans.__('of the last')}</span>
            <Input width={64} label={trans.__('Look back')} {...field('lookBack')} />
          </>
        )}
        {draft.missed === MissedPolicy.MISSED_ALL ? (
          <>
            <span className="jp-loam-sub">{trans.__('at most')}</span>
            <Input width={52} label={trans.__('At most so many')} {...field('cap')} />
          </>
        ) : null}
      </div>
      <Problem text={problems.lookBack ?? problems.cap} />
      <div className="jp-loam-says">{whatIfOff(draft, fires, trans)}</div>
    </Line>
  );
}

function whatIfOff(draft: Draft, fires: readonly Fire[], trans: Trans): string {
  const lookBackMs = lengthOf(draft.lookBack) || 86_400_000;
  const found = outage(fires, { missed: draft.missed, cap: Number(draft.cap) || 100, lookBackMs });
  if (!found) {
    return trans.__('Nothing is to come, so nothing can be missed.');
  }
  const [first, last] = lines([found.first, found.last]).map(line => `${line.day} ${line.time}`);
  const off =
    found.missed === 1
      ? trans.__('Off at %1: 1 tick missed', first)
      : trans.__('Off from %1 to %2: %3 ticks missed', first, last, String(found.missed));
  switch (draft.missed) {
    case MissedPolicy.MISSED_SKIP:
      return trans.__('%1, no run starts; they are listed, and you are told.', off);
    case MissedPolicy.MISSED_LATEST:
      return trans.__('%1, 1 run starts, for %2. The others are listed, and you are told.', off, last);
    case MissedPolicy.MISSED_ALL:
      return found.tooOld
        ? trans.__('%1, %2 runs start, oldest first; %3 are older than %4 and are only listed.', off, String(found.runs), String(found.tooOld), draft.lookBack)
        : trans._n('%1, %2 run starts.', '%1, %2 runs start, oldest first, one after another.', found.runs, off, String(found.runs));
  }
}

export function Overlap({ draft, change, fires, usual }: Props): JSX.Element {
  const { trans } = useFace();
  const gap = gapMs(fires);
  const means: Record<OverlapPolicy, string> = {
    [OverlapPolicy.OVERLAP_SKIP]: trans.__('The next tick makes no run; it is listed as skipped.'),
    [OverlapPolicy.OVERLAP_QUEUE]: trans.__('The next run waits for the one before.'),
    [OverlapPolicy.OVERLAP_REPLACE]: trans.__('The one before is asked to stop; the next run starts after that.'),
    [OverlapPolicy.OVERLAP_ALLOW]: trans.__('Both run at the same time.')
  };
  return (
    <Line label={trans.__('Still running')}>
      <Segments
        label={trans.__('While an earlier run has not ended')}
        value={draft.overlap}
        choices={[
          { value: OverlapPolicy.OVERLAP_SKIP, label: trans.__('Skip') },
          { value: OverlapPolicy.OVERLAP_QUEUE, label: trans.__('Queue') },
          { value: OverlapPolicy.OVERLAP_REPLACE, label: trans.__('Replace') },
          { value: OverlapPolicy.OVERLAP_ALLOW, label: trans.__('Allow') }
        ]}
        onChange={overlap => change({ overlap })}
      />
      <div className="jp-loam-says">
        {means[draft.overlap]}{' '}
        <span className="jp-loam-sub">
          {gap && usual.count
            ? trans.__(
                usual.medianMs < gap / 2 ? 'Unlikely: a run takes %1 (median of %2), ticks are %3 apart.' : 'Likely: a run takes %1 (median of %2), ticks are %3 apart.',
                duration(usual.medianMs),
                String(usual.count),
                duration(gap)
              )
            : gap
              ? trans.__('Ticks are %1 apart.', duration(gap))
              : ''}
        </span>
      </div>
    </Line>
  );
}
