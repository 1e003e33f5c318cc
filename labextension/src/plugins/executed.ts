/** The executed notebook of a run, in a tab: read only, from what the run left, at the cell that failed. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import type { NotebookPanel, NotebookWidgetFactory } from '@jupyterlab/notebook';
import { INotebookWidgetFactory, NotebookModel, StaticNotebook } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';
import { ArtifactKind } from '../gen/loam/jobs/v1/jobs_pb';
import { Jobs } from '../gen/loam/jobs/v1/service_pb';
import { loamIcon } from '../icons';
import type { KeptNotebook } from '../model/executed';
import { failedCell, readNotebook } from '../model/executed';
import type { Loam } from '../model/loam';
import type { Trans } from '../model/words';
import { instant, plain } from '../model/words';
import { COMMANDS, ILoam } from '../tokens';
import { attempt } from './scheduleactions';

export const executed: JupyterFrontEndPlugin<void> = {
  id: 'loam-lab:executed',
  description: 'Executed notebooks of runs.',
  autoStart: true,
  requires: [ILoam, INotebookWidgetFactory],
  optional: [ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    { loam, face }: ILoam,
    factory: NotebookWidgetFactory.IFactory,
    restorer: ILayoutRestorer | null
  ) => {
    const { commands, shell } = app;
    const { trans } = face;
    const open = new WidgetTracker<MainAreaWidget<StaticNotebook> & { runId?: string }>({ namespace: 'loam-executed' });
    commands.addCommand(COMMANDS.openExecuted, {
      label: trans.__('Open Executed Notebook'),
      caption: trans.__('What the run left of its notebook, as far as it came'),
      describedBy: { args: { type: 'object', properties: { id: { type: 'string' }, cell: { type: 'number' } } } },
      execute: args =>
        attempt(trans.__('Not opened'), async () => {
          const id = String(args.id ?? '');
          const found = await fetchNotebook(loam, id, trans);
          const before = open.find(one => one.runId === id);
          // A run that goes on has more to show than when it was opened.
          const content = before?.content ?? notebookView(factory as NotebookWidgetFactory);
          content.model?.fromJSON(found.content as unknown as Parameters<NotebookModel['fromJSON']>[0]);
          for (const cell of content.widgets) {
            cell.readOnly = true;
          }
          let widget = before;
          if (!widget) {
            const name = plain(found.name, { most: 60 });
            widget = new MainAreaWidget({ content });
            widget.runId = id;
            widget.id = `loam-executed-${id}`;
            widget.addClass('jp-loam-executed');
            widget.title.icon = loamIcon;
            widget.title.label = trans.__('%1, executed', name);
            widget.title.caption = `${name}\n${instant(found.atMs)}\n${id}`;
            const note = new Widget();
            note.addClass('jp-loam-executednote');
            note.node.textContent = trans.__('Executed notebook of run %1, %2. Read only.', id.slice(0, 13), instant(found.atMs));
            widget.toolbar.addItem('note', note);
            void open.add(widget);
          }
          if (!widget.isAttached) {
            shell.add(widget, 'main', { type: 'Loam executed notebook' });
          }
          shell.activateById(widget.id);
          const at = typeof args.cell === 'number' ? args.cell : found.failedAt;
          requestAnimationFrame(() => show(content, at));
        })
    });
    if (restorer) {
      void restorer.restore(open, {
        command: COMMANDS.openExecuted,
        args: widget => ({ id: widget.runId ?? '' }),
        name: widget => widget.runId ?? ''
      });
    }
  }
};

async function fetchNotebook(
  loam: Loam,
  id: string,
  trans: Trans
): Promise<{ content: KeptNotebook; name: string; atMs: number; failedAt: number }> {
  const got = await loam.call(Jobs.method.get, { jobId: id });
  const kept = got.artifacts.find(one => one.kind === ArtifactKind.ARTIFACT_NOTEBOOK && one.kept);
  if (!kept) {
    throw new Error(trans.__("run %1 has no executed notebook: it is no notebook's run, or has not begun", id.slice(0, 13)));
  }
  const { content } = await loam.call(Jobs.method.getBlob, { jobId: id, sha256: kept.sha256 });
  return {
    content: readNotebook(content, trans),
    name: got.job?.task?.name ?? id,
    atMs: Number(got.job?.startedAtMs ?? 0n),
    failedAt: failedCell(got.cells)?.index ?? -1
  };
}

/** A notebook without a kernel and without commands. */
function notebookView(factory: NotebookWidgetFactory): StaticNotebook {
  const view = new StaticNotebook({
    rendermime: factory.rendermime,
    contentFactory: factory.contentFactory as NotebookPanel.IContentFactory,
    mimeTypeService: factory.mimeTypeService,
    notebookConfig: { ...StaticNotebook.defaultNotebookConfig, windowingMode: 'none' }
  });
  view.model = new NotebookModel();
  view.addClass('jp-Notebook');
  return view;
}

function show(view: StaticNotebook, at: number): void {
  view.widgets.forEach((cell, place) => cell.toggleClass('jp-loam-at', place === at));
  const cell = view.widgets[at];
  if (cell) {
    cell.node.tabIndex = -1;
    cell.node.scrollIntoView({ block: 'start' });
    cell.node.focus({ preventScroll: true });
  }
}
