/** Commands on runs, where a Lab user looks for them: palette, context menus, toolbar, file browser. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { INotebookTracker } from '@jupyterlab/notebook';
import { JobState } from '../gen/loam/jobs/v1/jobs_pb';
import type { Job } from '../gen/loam/jobs/v1/jobs_pb';
import { hasEnded, wordOf } from '../model/state';
import { loamIcon } from '../icons';
import { COMMANDS, ILoam } from '../tokens';

export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'loam-lab:commands',
  description: 'Commands on runs.',
  autoStart: true,
  requires: [ILoam],
  optional: [ICommandPalette, IFileBrowserFactory, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    { loam, face }: ILoam,
    palette: ICommandPalette | null,
    browsers: IFileBrowserFactory | null,
    notebooks: INotebookTracker | null
  ) => {
    const { commands } = app;
    const { trans, actions } = face;
    const active = (): Job | undefined => loam.runs.get(loam.active);
    const mayWrite = () => loam.canWrite !== false;
    const args = { type: 'object', properties: {} };
    const add = (id: string, label: string, caption: string, fits: (job: Job) => boolean, act: (id: string) => unknown) =>
      commands.addCommand(id, {
        label,
        caption,
        describedBy: { args },
        isEnabled: () => {
          const job = active();
          return job !== undefined && fits(job) && (mayWrite() || id === COMMANDS.copyLink);
        },
        isVisible: () => mayWrite() || id === COMMANDS.copyLink,
        execute: () => act(loam.active)
      });
    add(
      COMMANDS.cancel,
      trans.__('Cancel Run'),
      trans.__('Ask the run to stop'),
      job => !hasEnded(job) && wordOf(job) !== 'cancelling',
      id => actions.cancel([id])
    );
    add(
      COMMANDS.retry,
      trans.__('Retry Run'),
      trans.__('Make a new run of it'),
      job => hasEnded(job) && !job.attached && !job.deadLetter,
      actions.retry
    );
    add(
      COMMANDS.retryWith,
      trans.__('Retry Run With Other Parameters…'),
      trans.__('Make a new run of it with other parameters'),
      job => hasEnded(job) && !job.attached,
      actions.retryWith
    );
    add(
      COMMANDS.redrive,
      trans.__('Redrive Dead Letter'),
      trans.__('Put it back in its queue'),
      job => job.deadLetter,
      id => actions.redrive({ jobIds: [id] })
    );
    add(
      COMMANDS.remove,
      trans.__('Delete Run…'),
      trans.__('Delete its log, code and result'),
      hasEnded,
      actions.remove
    );
    add(
      COMMANDS.copyLink,
      trans.__('Copy Link to Run'),
      trans.__('A link that opens this run'),
      job => job.state !== JobState.JOB_STATE_UNSPECIFIED,
      actions.copyLink
    );
    commands.addCommand(COMMANDS.startServer, {
      label: trans.__('Start the Loam Server'),
      caption: trans.__('Look for the server again, and start the embedded one'),
      describedBy: { args },
      execute: () => actions.startServer()
    });

    const selected = (): string => browsers?.tracker.currentWidget?.selectedItems().next().value?.path ?? '';
    commands.addCommand('loam:run-selected-as-job', {
      label: args => (args.isPalette ? trans.__('Run Selected File as Job…') : trans.__('Run as Job…')),
      caption: trans.__('Run this file in a worker'),
      icon: loamIcon,
      describedBy: { args },
      isEnabled: mayWrite,
      isVisible: mayWrite,
      execute: () => commands.execute(COMMANDS.runAsJob, { path: selected() })
    });
    commands.addCommand('loam:run-notebook-as-job', {
      label: args => (args.isPalette ? trans.__('Run Notebook as Job…') : trans.__('Run as job…')),
      caption: trans.__('Save this notebook and run it in a worker'),
      icon: loamIcon,
      describedBy: { args },
      isEnabled: () => Boolean(notebooks?.currentWidget) && mayWrite(),
      isVisible: mayWrite,
      execute: async () => {
        // The notebook that the toolbar belongs to, not what the file browser has selected.
        const context = notebooks?.currentWidget?.context;
        if (context) {
          if (context.model.dirty) {
            await context.save();
          }
          await commands.execute(COMMANDS.runAsJob, { path: context.path });
        }
      }
    });
    // Every menu and toolbar of Lab asks again then: not for runs that no command is about.
    let known: Job | undefined;
    loam.changed.connect((_, change) => {
      if (change === 'rights' || known !== active()) {
        known = active();
        commands.notifyCommandChanged();
      }
    });
    const category = trans.__('Loam');
    for (const command of [
      COMMANDS.show,
      COMMANDS.cancel,
      COMMANDS.retry,
      COMMANDS.retryWith,
      COMMANDS.redrive,
      COMMANDS.remove,
      COMMANDS.copyLink,
      COMMANDS.startServer
    ]) {
      palette?.addItem({ command, category });
    }
    for (const command of ['loam:run-notebook-as-job', 'loam:run-selected-as-job']) {
      palette?.addItem({ command, category, args: { isPalette: true } });
    }
  }
};
