/** What a user can do, with its questions and its notices. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Clipboard, InputDialog, Notification } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import type { ServerConnection } from '@jupyterlab/services';
import { create, fromBinary } from '@bufbuild/protobuf';
import { JobSpecSchema, RetryPolicySchema } from '../gen/loam/jobs/v1/jobs_pb';
import { Jobs } from '../gen/loam/jobs/v1/service_pb';
import { jobOf, startServer } from '../connection';
import type { Loam } from '../model/loam';
import { record } from '../model/state';
import type { Trans } from '../model/words';
import { count, plain } from '../model/words';
import { COMMANDS } from '../tokens';
import type { DeadFilterInit } from '../ui/ask';
import type { Actions } from '../ui/face';
import { askJob, confirm, jobForm, paramsOf, problemOf } from './dialogs';
import { attempt, makeScheduleActions } from './scheduleactions';

const MOST_AT_ONCE = 1_000;

/** The link that opens a run in this Lab. */
export function linkTo(id: string): string {
  return `${URLExt.join(PageConfig.getBaseUrl(), PageConfig.getOption('appUrl') || 'lab')}?loam-run=${encodeURIComponent(id)}`;
}

export function makeActions(
  app: JupyterFrontEnd,
  loam: Loam,
  settings: ServerConnection.ISettings,
  trans: Trans
): Actions & { runAsJob: (path: string) => Promise<void> } {
  const { commands, serviceManager } = app;

  const open = (id: string) => void commands.execute(COMMANDS.openRun, { id });
  const opened = (id: string) => [{ label: trans.__('Open run'), callback: () => open(id) }];
  const nameOf = async (id: string) => {
    const found = loam.runs.get(id) ?? (await loam.call(Jobs.method.get, { jobId: id })).job;
    return plain(found?.task?.name ?? id, { most: 80 });
  };
  const howMany = async (which: DeadFilterInit): Promise<string> => {
    if (which.jobIds) {
      return count(which.jobIds.length);
    }
    const page = await loam.call(Jobs.method.list, { ...which, deadLetters: true, limit: MOST_AT_ONCE });
    return page.next ? trans.__('more than %1', count(MOST_AT_ONCE)) : count(page.jobs.length);
  };
  /** All pages of something that is done a batch at a time. */
  const inBatches = async (act: () => Promise<{ done: number; more: boolean }>): Promise<number> => {
    let all = 0;
    for (;;) {
      const { done, more } = await act();
      all += done;
      if (!more || !done) {
        return all;
      }
    }
  };

  const runAsJob = (path: string) =>
    attempt(trans.__('Not submitted'), async () => {
      const spec = fromBinary(JobSpecSchema, await jobOf(settings, serviceManager.contents.localPath(path)));
      const payload = record(spec.task?.payload ?? new Uint8Array());
      const given = jobForm(spec.task?.name ?? path, payload.params);
      const form = await askJob(
        trans,
        trans.__('Run %1 as a job', plain(given.name, { most: 60 })),
        given,
        ['name', 'queue', 'tags', 'params', 'retries', 'timeoutS'],
        typed => problemOf(typed, trans)
      );
      if (!form || !spec.task) {
        return;
      }
      const attempts = Number(form.retries) + 1;
      const job = create(JobSpecSchema, {
        ...spec,
        task: {
          ...spec.task,
          name: form.name.trim(),
          payload: new TextEncoder().encode(JSON.stringify({ ...payload, params: paramsOf(form.params) }))
        },
        queue: form.queue.trim() || 'default',
        tags: form.tags.split(/[\s,]+/).filter(Boolean),
        timeoutMs: BigInt(Math.round(Number(form.timeoutS) * 1000)),
        retry: create(RetryPolicySchema, { maxAttempts: attempts, maxLost: Math.max(2, attempts) })
      });
      const { jobIds } = await loam.call(Jobs.method.enqueue, { jobs: [job] });
      Notification.info(trans.__('%1 is queued', plain(form.name, { most: 80 })), {
        actions: opened(jobIds[0]),
        autoClose: 4_000
      });
    });

  return {
    ...makeScheduleActions(app, loam, settings, trans),
    runAsJob,
    open,
    openTable: name => void commands.execute(COMMANDS.openTable, { name }),
    cancel: ids =>
      attempt(trans.__('Not cancelled'), async () => {
        await loam.call(Jobs.method.cancel, { jobIds: ids });
      }),
    retry: id =>
      attempt(trans.__('Not retried'), async () => {
        const { jobId } = await loam.call(Jobs.method.retry, { jobId: id });
        open(jobId);
      }),
    retryWith: id =>
      attempt(trans.__('Not retried'), async () => {
        const { job } = await loam.call(Jobs.method.get, { jobId: id });
        const payload = record(job?.task?.payload ?? new Uint8Array());
        const given = jobForm(job?.task?.name ?? id, payload.params);
        const form = await askJob(
          trans,
          trans.__('Retry %1 with other parameters', plain(given.name, { most: 60 })),
          given,
          ['params'],
          typed => problemOf(typed, trans)
        );
        if (form) {
          const text = JSON.stringify({ ...payload, params: paramsOf(form.params) });
          const { jobId } = await loam.call(Jobs.method.retry, { jobId: id, payload: new TextEncoder().encode(text) });
          open(jobId);
        }
      }),
    redrive: which =>
      attempt(trans.__('Not redriven'), async () => {
        const isOne = which.jobIds?.length === 1;
        const many = await howMany(which);
        if (
          !isOne &&
          !(await confirm(
            trans,
            trans.__('Redrive %1 dead letters?', many),
            trans.__('Each becomes a new run in its queue; the old ones keep their outcome.'),
            trans.__('Redrive %1', many),
            false
          ))
        ) {
          return;
        }
        let last = '';
        const all = await inBatches(async () => {
          const made = await loam.call(Jobs.method.redrive, { which, limit: MOST_AT_ONCE });
          last = made.jobIds[0] ?? last;
          return { done: made.jobIds.length, more: made.more };
        });
        Notification.info(trans._n('%1 run was redriven', '%1 runs were redriven', all, count(all)), {
          actions: all === 1 ? opened(last) : [],
          autoClose: 4_000
        });
      }),
    dismiss: which =>
      attempt(trans.__('Not dismissed'), async () => {
        await inBatches(async () => {
          const { dismissed, more } = await loam.call(Jobs.method.dismiss, { which, limit: MOST_AT_ONCE });
          return { done: dismissed, more };
        });
      }),
    remove: id =>
      attempt(trans.__('Not deleted'), async () => {
        const name = await nameOf(id);
        const isWanted = await confirm(
          trans,
          trans.__('Delete the run %1?', name),
          trans.__('Its log, code and result go; who ran what when, and the snapshots, stay known.'),
          trans.__('Delete')
        );
        if (isWanted) {
          await loam.call(Jobs.method.delete, { jobIds: [id] });
          loam.forget(id);
        }
      }),
    setPaused: (queue, paused) =>
      attempt(trans.__('The queue is unchanged'), async () => {
        await loam.call(Jobs.method.setQueue, { name: queue, paused });
        // No event tells it: the other views of queues read again.
        loam.changed.emit('counts');
      }),
    startServer: () =>
      attempt(trans.__('The loam server does not start'), async () => {
        await startServer(settings);
        loam.stream.retry();
      }),
    newRun: () =>
      void attempt(trans.__('Not submitted'), async () => {
        const answer = await InputDialog.getText({
          title: trans.__('Run a file as a job'),
          label: trans.__('Path of a Python file or notebook, as in the file browser'),
          okLabel: trans.__('Next…'),
          cancelLabel: trans.__('Back'),
          placeholder: 'jobs/load.py'
        });
        if (answer.button.accept && answer.value) {
          await runAsJob(answer.value);
        }
      }),
    sampleNotebook: () =>
      void attempt(trans.__('No notebook was made'), async () => {
        const made = await serviceManager.contents.newUntitled({ type: 'notebook', path: '' });
        const cell = (source: string) => ({
          cell_type: 'code',
          execution_count: null,
          id: Math.random().toString(36).slice(2, 10),
          metadata: {},
          outputs: [],
          source
        });
        await serviceManager.contents.save(made.path, {
          type: 'notebook',
          format: 'json',
          content: {
            cells: [cell('%load_ext loam_lab'), cell('%%loam spark\nspark.range(10)')],
            metadata: {},
            nbformat: 4,
            nbformat_minor: 5
          }
        });
        await commands.execute('docmanager:open', { path: made.path });
      }),
    copyLink: id => {
      Clipboard.copyToSystem(linkTo(id));
      Notification.info(trans.__('The link is copied'), { autoClose: 2_000 });
    },
    copy: text => Clipboard.copyToSystem(text)
  };
}
