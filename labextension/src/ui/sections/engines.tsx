/** Engines, the catalog and the server itself: whether they run, and how much memory they hold. */
import * as React from 'react';
import type { Process } from '../../gen/loam/jobs/v1/service_pb';
import { Jobs } from '../../gen/loam/jobs/v1/service_pb';
import type { Trans } from '../../model/words';
import { size } from '../../model/words';
import { Text } from '../bits';
import { useFace } from '../face';
import type { Section } from '../section';
import { Note, useRead, useTicks } from '../section';

function useProcesses(): { processes: Process[]; error: string; version: string } {
  const { loam } = useFace();
  const { value, error } = useRead(() => loam.shared(Jobs.method.status), useTicks(3_000));
  return { processes: value?.processes ?? [], error, version: value?.version ?? '' };
}

function Summary(): JSX.Element {
  const { loam, trans } = useFace();
  const { processes } = useProcesses();
  if (loam.server.kind === 'lost') {
    return <>{trans.__('not known')}</>;
  }
  const running = processes.filter(process => process.state === 'running').length;
  return <>{processes.length ? trans.__('%1 of %2 run', String(running), String(processes.length)) : '…'}</>;
}

/** What people call a process of the server. */
function nameOf(process: Process, trans: Trans): string {
  switch (process.name) {
    case 'sail':
      return trans.__('spark (Sail)');
    case 'server':
      return trans.__('loam server');
    default:
      return process.name;
  }
}

function Body(): JSX.Element {
  const { loam, trans } = useFace();
  const { processes, error, version } = useProcesses();
  if (loam.server.kind === 'lost') {
    return <Note>{trans.__('Not known while the server is not reachable.')}</Note>;
  }
  if (error) {
    return (
      <Note>
        <Text value={error} />
      </Note>
    );
  }
  return (
    <ul className="jp-loam-plain">
      {processes.map(process => {
        const isRunning = process.state === 'running';
        return (
          <li key={process.name} className="jp-loam-line e">
            <span className={`jp-loam-st ${isRunning ? 'jp-loam-ok' : 'jp-loam-none'}`}>
              <Text value={nameOf(process, trans)} />
            </span>
            <span className="jp-loam-sub" title={process.endpoint}>
              {process.name === 'server' ? `${version}, ` : ''}
              {isRunning ? trans.__('runs, %1', size(Number(process.residentBytes))) : idle(process, trans)}
              {process.starts > 1 ? `, ${trans.__('started %1 times', String(process.starts))}` : ''}
            </span>
          </li>
        );
      })}
    </ul>
  );
}

function idle(process: Process, trans: Trans): string {
  return process.starts ? trans.__('stopped, starts when needed') : trans.__('starts at first use');
}

export const engines: Section = {
  id: 'engines',
  title: ({ trans }) => trans.__('Engines'),
  Summary,
  Body,
  isOpen: true
};
