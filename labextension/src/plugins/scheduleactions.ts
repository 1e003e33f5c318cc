/** What a user can do with schedules and executed notebooks, with its questions and its notices. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import type { ServerConnection } from '@jupyterlab/services';
import { fromBinary } from '@bufbuild/protobuf';
import { JobSpecSchema } from '../gen/loam/jobs/v1/jobs_pb';
import { Jobs } from '../gen/loam/jobs/v1/service_pb';
import { jobOf } from '../connection';
import { EVERYTHING } from '../model/filter';
import type { Loam } from '../model/loam';
import { paramsIn } from '../model/schedules';
import { record } from '../model/state';
import type { Trans } from '../model/words';
import { count, plain } from '../model/words';
import { instantOf, wall } from '../model/zone';
import { COMMANDS } from '../tokens';
import type { ScheduleActions } from '../ui/face';
import { ask, askJob, confirm, jobForm, paramsOf, problemOf } from './dialogs';

/** Do it; what goes wrong is said, once. */
export async function attempt(what: string, act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    Notification.error(`${what}: ${plain(error instanceof Error ? error.message : String(error), { most: 500 })}`);
  }
}

export function makeScheduleActions(
  app: JupyterFrontEnd,
  loam: Loam,
  settings: ServerConnection.ISettings,
  trans: Trans
): ScheduleActions {
  const { commands, serviceManager } = app;
  const read = async (id: string) => {
    const { schedule } = await loam.call(Jobs.method.getSchedule, { scheduleId: id });
    return { schedule, name: plain(schedule?.name ?? id, { most: 80 }) };
  };
  // The event tells it, too; this is for pages that do not get events just now.
  const heed = () => loam.changed.emit('schedules');
  return {
    rootUri: PageConfig.getOption('rootUri'),
    kernels: () => Object.keys(serviceManager.kernelspecs.specs?.kernelspecs ?? {}).sort(),
    jobOf: async path => fromBinary(JobSpecSchema, await jobOf(settings, serviceManager.contents.localPath(path))),
    openSchedule: id => void commands.execute(COMMANDS.openSchedule, { id }),
    editSchedule: id => void commands.execute(COMMANDS.editSchedule, { id }),
    openExecuted: (id, cell) => void commands.execute(COMMANDS.openExecuted, cell === undefined ? { id } : { id, cell }),
    showRunsOf: (id, name) => {
      void loam.setFilter({ ...EVERYTHING, schedule: id, scheduleName: name });
      void commands.execute(COMMANDS.show);
    },
    setSchedulePaused: (id, paused) =>
      attempt(trans.__('The schedule is unchanged'), async () => {
        await (paused
          ? loam.call(Jobs.method.pauseSchedule, { scheduleId: id })
          : loam.call(Jobs.method.resumeSchedule, { scheduleId: id }));
        heed();
      }),
    trigger: id =>
      attempt(trans.__('Not triggered'), async () => {
        const { schedule, name } = await read(id);
        const params = paramsIn(record(schedule?.job?.task?.payload ?? new Uint8Array()));
        const form = await askJob(trans, trans.__('Run %1 now', name), jobForm(name, params), ['params'], typed => problemOf(typed, trans));
        if (form) {
          const text = JSON.stringify(paramsOf(form.params));
          const { jobId } = await loam.call(Jobs.method.triggerSchedule, {
            scheduleId: id,
            params: new TextEncoder().encode(text)
          });
          heed();
          Notification.info(trans.__('%1 is queued', name), {
            actions: [{ label: trans.__('Open run'), callback: () => void commands.execute(COMMANDS.openRun, { id: jobId }) }],
            autoClose: 4_000
          });
        }
      }),
    backfill: id =>
      attempt(trans.__('No backfill was made'), async () => {
        const { schedule, name } = await read(id);
        const zone = schedule?.rule?.zone || 'UTC';
        const form = await ask(
          trans,
          trans.__('Make the past runs of %1', name),
          { from: '', to: wall(Date.now(), zone), concurrency: '1' },
          {
            from: { label: trans.__('From, in %1', zone), kind: 'datetime-local' },
            to: { label: trans.__('To, in %1, included', zone), kind: 'datetime-local' },
            concurrency: { label: trans.__('Runs at once') }
          },
          typed =>
            instantOf(typed.from, zone) === null || instantOf(typed.to, zone) === null
              ? trans.__('From and to: a day and a time are wanted.')
              : /^[1-9]\d?$/.test(typed.concurrency.trim())
                ? ''
                : trans.__('Runs at once: a whole number from 1 to 99 is wanted.')
        );
        if (form) {
          const { backfill } = await loam.call(Jobs.method.backfill, {
            scheduleId: id,
            fromMs: BigInt(instantOf(form.from, zone) ?? 0),
            toMs: BigInt(instantOf(form.to, zone) ?? 0),
            concurrency: Number(form.concurrency)
          });
          heed();
          const many = backfill?.total ?? 0;
          Notification.info(trans._n('%1 run is made', '%1 runs are made', many, count(many)), { autoClose: 4_000 });
        }
      }),
    cancelBackfill: id =>
      attempt(trans.__('The backfill goes on'), async () => {
        await loam.call(Jobs.method.cancelBackfill, { backfillId: id });
        heed();
      }),
    removeSchedule: id =>
      attempt(trans.__('Not deleted'), async () => {
        const { name } = await read(id);
        const isWanted = await confirm(
          trans,
          trans.__('Delete the schedule %1?', name),
          trans.__('It fires no more, and its ticks are forgotten. Its runs stay; those that wait for each other are cancelled.'),
          trans.__('Delete')
        );
        if (isWanted) {
          await loam.call(Jobs.method.deleteSchedule, { scheduleId: id });
          heed();
        }
      })
  };
}
