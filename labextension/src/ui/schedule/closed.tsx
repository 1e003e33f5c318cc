/** Whether schedules fire while no Lab is open: what the server says of itself. */
import * as React from 'react';
import { Jobs } from '../../gen/loam/jobs/v1/service_pb';
import { useFace } from '../face';
import { useRead, useTicks } from '../section';

export function Closed(): JSX.Element {
  const { loam, trans } = useFace();
  const { value } = useRead(() => loam.shared(Jobs.method.status), useTicks(60_000));
  return (
    <>
      {!value
        ? ''
        : value.alwaysOn
          ? trans.__('They fire with Lab closed, too: each login starts the loam server.')
          : trans.__('They fire with Lab closed, too, until this machine restarts. "loam service install" starts the loam server with each login.')}
    </>
  );
}
