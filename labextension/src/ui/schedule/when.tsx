/** When it fires: cron, an interval or named instants, in a zone, between bounds. */
import * as React from 'react';
import type { Draft, Problems } from '../../model/draft';
import { zones } from '../../model/zone';
import { Text } from '../bits';
import { useFace } from '../face';
import { Input, Line, Problem, Segments } from './fields';
import type { Preview } from './fires';

export function WhenLines(props: {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  problems: Problems;
  preview: Preview;
}): JSX.Element {
  const { draft, change, preview } = props;
  const problems = { ...props.problems, ...preview.problems };
  const { trans } = useFace();
  const list = React.useId();
  const all = React.useMemo(() => zones(''), []);
  const typed = {
    cron: (
      <Input mono label={trans.__('Cron rule')} placeholder="0 6 * * mon-fri" value={draft.cron} problem={preview.error} onChange={cron => change({ cron })} />
    ),
    every: (
      <Input label={trans.__('Interval')} placeholder="15 min" value={draft.every} problem={problems.every} onChange={every => change({ every })} />
    ),
    once: (
      <Input mono label={trans.__('Instants, separated by commas')} placeholder="2027-03-28T02:30" value={draft.once} problem={problems.once} onChange={once => change({ once })} />
    )
  };
  const isOld = preview.isAsking || preview.error !== '';
  return (
    <>
      <Line label={trans.__('When')}>
        <div className="jp-loam-inline">
          <Segments
            label={trans.__('Kind of rule')}
            value={draft.when}
            choices={[
              { value: 'cron', label: trans.__('Cron') },
              { value: 'every', label: trans.__('Every') },
              { value: 'once', label: trans.__('Once') }
            ]}
            onChange={when => change({ when })}
          />
          {typed[draft.when]}
          <Input label={trans.__('Time zone')} list={list} width={150} value={draft.zone} problem={problems.zone} onChange={zone => change({ zone })} />
          <datalist id={list}>
            {all.map(zone => (
              <option key={zone} value={zone} />
            ))}
          </datalist>
        </div>
        <Problem text={preview.error || problems.every || problems.once || problems.zone || problems.when} />
        {preview.words ? (
          <div className={`jp-loam-says${isOld ? ' jp-loam-stale' : ''}`} aria-live="polite">
            <b>
              <Text value={preview.words.charAt(0).toUpperCase() + preview.words.slice(1)} most={300} />
            </b>
          </div>
        ) : null}
      </Line>
      <Line label={trans.__('Between')}>
        <div className="jp-loam-inline">
          <Input type="datetime-local" width={170} label={trans.__('Not before')} value={draft.start} problem={problems.start} onChange={start => change({ start })} />
          <span className="jp-loam-sub">{trans.__('and')}</span>
          <Input type="datetime-local" width={170} label={trans.__('Not after')} value={draft.end} problem={problems.end} onChange={end => change({ end })} />
        </div>
        <div className="jp-loam-inline below">
          <span className="jp-loam-sub">{trans.__('spread by up to')}</span>
          <Input width={64} label={trans.__('Spread by up to')} placeholder="0 s" value={draft.jitter} problem={problems.jitter} onChange={jitter => change({ jitter })} />
          <span className="jp-loam-sub">{trans.__('empty: from now on, without end')}</span>
        </div>
        <Problem text={problems.start ?? problems.end ?? problems.jitter} />
      </Line>
    </>
  );
}
