/** Schedules in Lab: their form and page in the main area, and where a user looks for them. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { Widget } from '@lumino/widgets';
import { loamIcon } from '../icons';
import { COMMANDS, ILoam } from '../tokens';
import { ScheduleFormWidget, ScheduleWidget } from '../schedulewidgets';

const text = { type: 'string' };

export const schedules: JupyterFrontEndPlugin<void> = {
  id: 'loam-lab:schedules',
  description: 'Schedules: the form, the page of one, commands.',
  autoStart: true,
  requires: [ILoam],
  optional: [ILayoutRestorer, ICommandPalette, IFileBrowserFactory, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    { loam, face }: ILoam,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    browsers: IFileBrowserFactory | null,
    notebooks: INotebookTracker | null
  ) => {
    const { commands, shell } = app;
    const { trans, actions } = face;
    const pages = new WidgetTracker<MainAreaWidget<ScheduleWidget>>({ namespace: 'loam-schedule' });
    const forms = new WidgetTracker<MainAreaWidget<ScheduleFormWidget>>({ namespace: 'loam-schedule-form' });
    const show = (widget: Widget, type: string) => {
      if (!widget.isAttached) {
        shell.add(widget, 'main', { type });
      }
      shell.activateById(widget.id);
    };
    const openForm = (path: string, scheduleId: string) => {
      const key = scheduleId || path;
      let widget = forms.find(one => one.content.key === key);
      if (!widget) {
        const content = new ScheduleFormWidget(face, { path, scheduleId }, id => {
          widget?.close();
          loam.changed.emit('schedules');
          if (id) {
            loam.setActiveSchedule(id);
            actions.openSchedule(id);
          }
        });
        widget = new MainAreaWidget({ content });
        widget.toolbar.hide();
        widget.id = `loam-schedule-form-${key}`;
        void forms.add(widget);
      }
      show(widget, 'Loam schedule form');
    };
    const add = (id: string, label: string, caption: string, act: (id: string) => unknown, isWrite = true) =>
      commands.addCommand(id, {
        label,
        caption,
        describedBy: { args: { type: 'object', properties: { id: text } } },
        isEnabled: args => Boolean(args.id ?? loam.activeSchedule),
        isVisible: () => !isWrite || loam.canWrite !== false,
        execute: args => act(String(args.id ?? loam.activeSchedule))
      });
    add(COMMANDS.editSchedule, trans.__('Edit Schedule…'), trans.__('Change any field of it'), id => openForm('', id));
    add(COMMANDS.triggerSchedule, trans.__('Trigger Schedule…'), trans.__('Make a run of it now'), actions.trigger);
    add(COMMANDS.pauseSchedule, trans.__('Pause Schedule'), trans.__('Fire no more until it is resumed'), id =>
      actions.setSchedulePaused(id, true)
    );
    add(COMMANDS.resumeSchedule, trans.__('Resume Schedule'), trans.__('Fire again, from now on'), id =>
      actions.setSchedulePaused(id, false)
    );
    add(COMMANDS.backfillSchedule, trans.__('Backfill Schedule…'), trans.__('Make the runs of a range that has passed'), actions.backfill);
    add(COMMANDS.removeSchedule, trans.__('Delete Schedule…'), trans.__('Forget it; its runs stay'), actions.removeSchedule);
    add(
      COMMANDS.openSchedule,
      trans.__('Open Schedule'),
      trans.__('Its next fires, and what became of its last'),
      id => {
        let widget = pages.find(one => one.content.scheduleId === id);
        if (!widget) {
          widget = new MainAreaWidget({ content: new ScheduleWidget(face, id) });
          widget.toolbar.hide();
          widget.id = `loam-schedule-${id}`;
          void pages.add(widget);
        }
        show(widget, 'Loam schedule');
      },
      false
    );
    commands.addCommand(COMMANDS.schedule, {
      label: trans.__('Schedule…'),
      caption: trans.__('Run this file at its times'),
      icon: loamIcon,
      describedBy: { args: { type: 'object', properties: { path: text } } },
      isVisible: () => loam.canWrite !== false,
      execute: args => openForm(String(args.path ?? browsers?.tracker.currentWidget?.selectedItems().next().value?.path ?? ''), '')
    });
    commands.addCommand(COMMANDS.scheduleNotebook, {
      label: args => (args.isPalette ? trans.__('Schedule Notebook…') : trans.__('Schedule…')),
      caption: trans.__('Save this notebook and run it at its times'),
      icon: loamIcon,
      describedBy: { args: { type: 'object', properties: {} } },
      isEnabled: () => Boolean(notebooks?.currentWidget),
      isVisible: () => loam.canWrite !== false,
      execute: async () => {
        // The notebook that the toolbar belongs to, not what the file browser has selected.
        const context = notebooks?.currentWidget?.context;
        if (context) {
          if (context.model.dirty) {
            await context.save();
          }
          openForm(context.path, '');
        }
      }
    });
    if (restorer) {
      void restorer.restore(pages, {
        command: COMMANDS.openSchedule,
        args: widget => ({ id: widget.content.scheduleId }),
        name: widget => widget.content.scheduleId
      });
    }
    loam.changed.connect((_, change) => {
      if (change === 'schedules') {
        commands.notifyCommandChanged();
      }
    });
    const category = trans.__('Loam');
    for (const command of [
      COMMANDS.openSchedule,
      COMMANDS.editSchedule,
      COMMANDS.triggerSchedule,
      COMMANDS.pauseSchedule,
      COMMANDS.resumeSchedule,
      COMMANDS.backfillSchedule,
      COMMANDS.removeSchedule
    ]) {
      palette?.addItem({ command, category });
    }
    palette?.addItem({ command: COMMANDS.scheduleNotebook, category, args: { isPalette: true } });
  }
};
