/** The sidebar: what runs, what waits, what needs me? */
import * as React from 'react';
import { isEmpty } from '../model/filter';
import { Banner, Rights } from './banner';
import { Button, useSignal } from './bits';
import { useFace } from './face';
import { FilterBar } from './filterbar';
import { RunList } from './runlist';
import { SectionView } from './section';
import { SECTIONS } from './sections';

export function Sidebar(): JSX.Element {
  const { loam } = useFace();
  useSignal(loam.changed, change => change === 'runs' || change === 'server');
  const { jobs, next, filter } = loam.runs;
  const isFirstUse = !jobs.length && next === '' && isEmpty(filter);
  const isStale = loam.server.kind === 'lost';
  return (
    <>
      <Banner />
      <Rights />
      {isFirstUse ? (
        <FirstUse />
      ) : (
        <>
          <FilterBar />
          <div className={`jp-loam-runs${isStale ? ' jp-loam-stale' : ''}`}>
            <RunList />
            {!jobs.length && next === '' ? <NoMatch /> : null}
          </div>
        </>
      )}
      <div className={`jp-loam-secs${isStale ? ' jp-loam-stale' : ''}`}>
        {SECTIONS.map(section => (
          <SectionView key={section.id} section={section} />
        ))}
      </div>
    </>
  );
}

function NoMatch(): JSX.Element {
  const { trans } = useFace();
  return (
    <p className="jp-loam-nomatch" role="status">
      {trans.__('No runs like that.')}
    </p>
  );
}

function FirstUse(): JSX.Element {
  const { loam, trans, actions } = useFace();
  return (
    <div className="jp-loam-empty">
      <h3>{trans.__('No runs yet')}</h3>
      <p>
        {trans.__(
          'A run goes on when the tab, the kernel or its worker does not. Try one in a notebook:'
        )}
      </p>
      <pre className="jp-loam-code">{'%load_ext loam_lab\n\n%%loam spark\nspark.range(10)'}</pre>
      {loam.canWrite ? (
        <>
          <Button
            kind="go"
            icon="plus"
            label={trans.__('New notebook with this')}
            onClick={() => actions.sampleNotebook()}
          />
          <p />
          <Button kind="small" label={trans.__('Run a file as a job…')} onClick={() => actions.newRun()} />
        </>
      ) : null}
    </div>
  );
}
