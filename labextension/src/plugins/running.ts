/** Runs that have not ended, in Lab's panel of what is running. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { Signal } from '@lumino/signaling';
import type { Job } from '../gen/loam/jobs/v1/jobs_pb';
import { JobState } from '../gen/loam/jobs/v1/jobs_pb';
import { Jobs } from '../gen/loam/jobs/v1/service_pb';
import { loamIcon } from '../icons';
import { Throttle } from '../model/throttle';
import { wordOf } from '../model/state';
import { plain } from '../model/words';
import { wordIn } from '../ui/bits';
import { ILoam } from '../tokens';

const MOST = 50;

export const running: JupyterFrontEndPlugin<void> = {
  id: 'loam-lab:running',
  description: 'Active runs in the Running panel.',
  autoStart: true,
  requires: [ILoam],
  optional: [IRunningSessionManagers],
  activate: (_app: JupyterFrontEnd, { loam, face }: ILoam, managers: IRunningSessionManagers | null) => {
    if (!managers) {
      return;
    }
    const { trans, actions } = face;
    let active: Job[] = [];
    const changed = new Signal<object, void>({});
    const reading = new Throttle(
      async () => {
        const states = [JobState.RUNNING, JobState.READY];
        active = (await loam.call(Jobs.method.list, { states, limit: MOST })).jobs;
        changed.emit();
      },
      2_000,
      () => document.hidden
    );
    loam.changed.connect((_, change) => {
      if (change === 'counts') {
        reading.soon();
      }
    });
    managers.add({
      name: trans.__('Loam runs'),
      supportsMultipleViews: false,
      running: () =>
        active.map(job => ({
          label: () => plain(job.task?.name ?? '', { most: 120 }),
          labelTitle: () => `${wordIn(trans, wordOf(job))}, ${job.task?.engine ?? ''}\n${job.id}`,
          detail: () => wordIn(trans, wordOf(job)),
          icon: () => loamIcon,
          open: () => actions.open(job.id),
          shutdown: () => void actions.cancel([job.id])
        })),
      shutdownAll: () => void actions.cancel(active.map(job => job.id)),
      refreshRunning: () => reading.soon(),
      runningChanged: changed,
      shutdownLabel: trans.__('Cancel'),
      shutdownAllLabel: trans.__('Cancel All'),
      shutdownAllConfirmationText: trans.__('Cancel all runs that are listed here? Those of other people, too.')
    });
  }
};
