/** Notices: a run of mine or of my schedules has failed, or a long one has ended; a schedule of mine missed ticks. One each. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { Job } from '../gen/loam/jobs/v1/jobs_pb';
import { Jobs } from '../gen/loam/jobs/v1/service_pb';
import { scheduleOf } from '../model/filter';
import type { Loam } from '../model/loam';
import type { NoticeRule } from '../model/notices';
import { endedIn, missedIn, noticeOf } from '../model/notices';
import { lengthMs } from '../model/state';
import { Throttle } from '../model/throttle';
import { duration, plain } from '../model/words';
import { ILoam } from '../tokens';

const SETTINGS = 'loam-lab:notices';
const MOST_AT_ONCE = 5;
const MOST_READ = 500;

export const notices: JupyterFrontEndPlugin<void> = {
  id: SETTINGS,
  description: 'Notices about runs that ended.',
  autoStart: true,
  requires: [ILoam],
  optional: [ISettingRegistry],
  activate: (_app: JupyterFrontEnd, { loam, face }: ILoam, registry: ISettingRegistry | null) => {
    const { trans, actions } = face;
    let rule: NoticeRule = { onFailure: true, longMs: 60_000 };
    const read = (settings: ISettingRegistry.ISettings) => {
      const { onFailure, longSeconds } = settings.composite as { onFailure?: boolean; longSeconds?: number };
      rule = { onFailure: onFailure ?? true, longMs: (longSeconds ?? 60) * 1000 };
    };
    void registry?.load(SETTINGS).then(settings => {
      read(settings);
      settings.changed.connect(read);
    });
    const told = new Set<string>();
    const since = Date.now();
    loam.events.connect(async (_, events) => {
      const missed = missedIn(events, since, told);
      missed.forEach(event => told.add(event.cursor));
      const own = await ownSchedules(loam, missed.map(event => event.scheduleId));
      for (const event of missed.filter(one => own.has(one.scheduleId)).slice(0, MOST_AT_ONCE)) {
        const name = plain(own.get(event.scheduleId) ?? '', { most: 80 });
        Notification.warning(`${name}: ${plain(event.message, { most: 160 })}`, {
          autoClose: false,
          actions: [{ label: trans.__('Open schedule'), callback: () => actions.openSchedule(event.scheduleId) }]
        });
      }
    });
    const tell = async (jobs: readonly Job[]) => {
      const mine = await ownSchedules(loam, jobs.map(scheduleOf));
      const worth = jobs.filter(job => (job.actor === loam.actor || mine.has(scheduleOf(job))) && noticeOf(job, rule));
      for (const job of worth.slice(0, MOST_AT_ONCE)) {
        const name = plain(job.task?.name ?? '', { most: 80 });
        const options = { autoClose: false as const, actions: [{ label: trans.__('Open run'), callback: () => actions.open(job.id) }] };
        if (noticeOf(job, rule) === 'failed') {
          Notification.error(trans.__('%1 failed: %2', name, plain(job.error, { most: 160 })), options);
        } else {
          Notification.success(trans.__('%1 ended after %2', name, duration(lengthMs(job, 0))), { ...options, autoClose: 8_000 });
        }
      }
      if (worth.length > MOST_AT_ONCE) {
        Notification.warning(trans.__('%1 more runs of yours ended', String(worth.length - MOST_AT_ONCE)));
      }
    };
    // A run that failed comes with its event, and one in the list is known; only what is neither is read, now and then.
    const unknown = new Set<string>();
    const reading = new Throttle(
      async () => {
        const jobIds = [...unknown].slice(0, MOST_READ);
        jobIds.forEach(id => unknown.delete(id));
        await tell((await loam.call(Jobs.method.list, { jobIds })).jobs);
      },
      2_000,
      () => document.hidden
    );
    document.addEventListener('visibilitychange', () => reading.wake());
    loam.events.connect((_, events) => {
      const known: Job[] = [];
      for (const event of endedIn(events, since, told)) {
        told.add(event.jobId);
        const job = event.job ?? loam.runs.get(event.jobId);
        if (job) {
          known.push(job);
        } else if (rule.longMs > 0 && unknown.size < MOST_READ) {
          unknown.add(event.jobId);
        }
      }
      void tell(known);
      if (unknown.size) {
        reading.soon();
      }
    });
  }
};

/** The names of those among some schedules that the user made. */
async function ownSchedules(loam: Loam, ids: readonly string[]): Promise<Map<string, string>> {
  if (!ids.some(Boolean)) {
    return new Map();
  }
  const { schedules } = await loam.call(Jobs.method.listSchedules, { limit: 1_000 });
  return new Map(schedules.filter(one => one.actor === loam.actor && ids.includes(one.id)).map(one => [one.id, one.name]));
}
