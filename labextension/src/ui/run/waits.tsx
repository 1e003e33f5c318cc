/** Why a queued run does not start, where its queue is the reason. */
import * as React from 'react';
import type { Job } from '../../gen/loam/jobs/v1/jobs_pb';
import { Jobs } from '../../gen/loam/jobs/v1/service_pb';
import { Button, Text } from '../bits';
import { useFace } from '../face';
import { useRead, useTicks } from '../section';

export function Waits(props: { job: Job }): JSX.Element | null {
  const { job } = props;
  const { loam, trans, actions } = useFace();
  const [changes, setChanges] = React.useState(0);
  const ticks = useTicks(3_000);
  const { value } = useRead(() => loam.shared(Jobs.method.queues), `${ticks}/${changes}`);
  if (!value?.queues.some(queue => queue.name === job.queue && queue.paused)) {
    return null;
  }
  const resume = () => void actions.setPaused(job.queue, false).then(() => setChanges(before => before + 1));
  return (
    <div className="jp-loam-notice">
      <span className="jp-loam-st jp-loam-pause" aria-hidden="true" />
      <span>
        <Text value={trans.__('It waits: the queue %1 is paused.', job.queue)} most={200} />
      </span>
      {loam.canWrite ? (
        <span className="jp-loam-acts">
          <Button kind="small" label={trans.__('Resume the queue')} onClick={resume} />
        </span>
      ) : null}
    </div>
  );
}
