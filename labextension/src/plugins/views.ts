/** Where the views stand: the sidebar, and a run or a table in the main area; all of them back after a reload. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer, IRouter } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { loamIcon } from '../icons';
import { COMMANDS, ILoam } from '../tokens';
import { RunWidget, SidebarWidget, TableWidget } from '../widgets';

const ID = /^[0-9a-f-]{4,36}$/;

export const views: JupyterFrontEndPlugin<void> = {
  id: 'loam-lab:views',
  description: 'The sidebar, and runs and tables in the main area.',
  autoStart: true,
  requires: [ILoam],
  optional: [ILayoutRestorer, IRouter],
  activate: (app: JupyterFrontEnd, { face }: ILoam, restorer: ILayoutRestorer | null, router: IRouter | null) => {
    const { commands, shell } = app;
    const { trans } = face;
    const sidebar = new SidebarWidget(face);
    sidebar.title.icon = loamIcon;
    sidebar.title.caption = trans.__('Loam: runs');
    shell.add(sidebar, 'left', { rank: 350, type: 'Loam' });
    restorer?.add(sidebar, sidebar.id);

    const runs = new WidgetTracker<MainAreaWidget<RunWidget>>({ namespace: 'loam-run' });
    const tables = new WidgetTracker<MainAreaWidget<TableWidget>>({ namespace: 'loam-table' });
    const text = { type: 'string' };
    commands.addCommand(COMMANDS.openRun, {
      label: trans.__('Open Run'),
      caption: trans.__('Show a run by itself'),
      describedBy: { args: { type: 'object', properties: { id: text } } },
      isEnabled: args => Boolean(args.id ?? face.loam.active),
      execute: args => {
        const id = String(args.id ?? face.loam.active);
        let widget = runs.find(one => one.content.runId === id);
        if (!widget) {
          const content = new RunWidget(face, id);
          content.title.label = trans.__('Run %1', id.slice(0, 13));
          content.title.icon = loamIcon;
          widget = new MainAreaWidget({ content });
          widget.toolbar.hide();
          widget.id = `loam-run-${id}`;
          void runs.add(widget);
        }
        if (!widget.isAttached) {
          shell.add(widget, 'main', { type: 'Loam run' });
        }
        shell.activateById(widget.id);
      }
    });
    commands.addCommand(COMMANDS.openTable, {
      label: trans.__('Open Table'),
      caption: trans.__('Show the snapshots of a table and the runs that wrote them'),
      describedBy: { args: { type: 'object', properties: { name: text } } },
      execute: args => {
        const name = String(args.name ?? '');
        let widget = tables.find(one => one.content.table === name);
        if (!widget) {
          const content = new TableWidget(face, name);
          content.title.label = name;
          content.title.icon = loamIcon;
          widget = new MainAreaWidget({ content });
          widget.toolbar.hide();
          widget.id = `loam-table-${name}`;
          void tables.add(widget);
        }
        if (!widget.isAttached) {
          shell.add(widget, 'main', { type: 'Loam table' });
        }
        shell.activateById(widget.id);
      }
    });
    commands.addCommand(COMMANDS.show, {
      label: trans.__('Show Runs'),
      caption: trans.__('Show the runs in the left sidebar'),
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => shell.activateById(sidebar.id)
    });
    if (restorer) {
      void restorer.restore(runs, {
        command: COMMANDS.openRun,
        args: widget => ({ id: widget.content.runId }),
        name: widget => widget.content.runId
      });
      void restorer.restore(tables, {
        command: COMMANDS.openTable,
        args: widget => ({ name: widget.content.table }),
        name: widget => widget.content.table
      });
    }
    commands.addCommand(COMMANDS.fromUrl, {
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => {
        const wanted = new URLSearchParams(window.location.search).get('loam-run') ?? '';
        if (ID.test(wanted)) {
          void app.restored.then(() => commands.execute(COMMANDS.openRun, { id: wanted }));
        }
      }
    });
    router?.register({ command: COMMANDS.fromUrl, pattern: /[?&]loam-run=/, rank: 20 });
  }
};
