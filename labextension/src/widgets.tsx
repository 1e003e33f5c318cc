/** Widgets that JupyterLab holds, each with a view of Loam in it. */
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import type { Widget } from '@lumino/widgets';
import * as React from 'react';
import { RUN_MIME, TABLE_MIME, readRun, readTable } from './model/bundle';
import type { Followed } from './model/followed';
import type { Face } from './ui/face';
import { FaceContext } from './ui/face';
import { later } from './ui/later';
import { RunCell } from './ui/runcell';
import { Sidebar } from './ui/sidebar';
import { TableView } from './ui/table';

const RunPage = later(async () => (await import('./ui/run/page')).RunPage);

export abstract class FaceWidget extends ReactWidget {
  private readonly _face: Face;

  constructor(face: Omit<Face, 'isShown'>) {
    super();
    this._face = { ...face, isShown: () => this.isVisible };
    this.addClass('jp-loam');
  }

  protected get face(): Face {
    return this._face;
  }

  protected abstract view(): JSX.Element;

  protected render(): JSX.Element {
    return <FaceContext.Provider value={this._face}>{this.view()}</FaceContext.Provider>;
  }
}

export class SidebarWidget extends FaceWidget {
  constructor(face: Omit<Face, 'isShown'>) {
    super(face);
    this.id = 'loam-runs';
    this.addClass('jp-loam-side');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', face.trans.__('Loam'));
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.face.loam.changed.emit('counts');
  }

  protected override onActivateRequest(): void {
    const list = this.node.querySelector<HTMLElement>('.jp-loam-list');
    (list ?? this.node.querySelector<HTMLElement>('button, input'))?.focus();
  }

  protected view(): JSX.Element {
    return <Sidebar />;
  }
}

export class RunWidget extends FaceWidget {
  private readonly _run: Followed;

  constructor(
    face: Omit<Face, 'isShown'>,
    readonly runId: string
  ) {
    super(face);
    this.addClass('jp-loam-main');
    this._run = face.loam.follow(runId);
    this._run.changed.connect(() => {
      const name = this._run.job?.task?.name;
      if (name) {
        this.title.label = name.length > 40 ? `${name.slice(0, 39)}…` : name;
        this.title.caption = `${name}\n${runId}`;
      }
    });
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.face.loam.release(this._run);
      super.dispose();
    }
  }

  protected view(): JSX.Element {
    return <RunPage run={this._run} />;
  }
}

export class TableWidget extends FaceWidget {
  constructor(
    face: Omit<Face, 'isShown'>,
    readonly table: string
  ) {
    super(face);
    this.addClass('jp-loam-main');
  }

  protected view(): JSX.Element {
    return <TableView name={this.table} saved={null} />;
  }
}

/** The renderer of both bundles. It shows what is saved at once, and asks nothing but reads before a click. */
export class BundleWidget extends FaceWidget implements IRenderMime.IRenderer {
  private _data: unknown;
  private readonly _mime: string;

  constructor(face: Omit<Face, 'isShown'>, mime: string) {
    super(face);
    this._mime = mime;
    this.addClass('jp-loam-bundle');
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._data = model.data[this._mime];
    this.update();
    await this.renderPromise;
  }

  protected view(): JSX.Element {
    const run = this._mime === RUN_MIME ? readRun(this._data) : null;
    if (run) {
      return <RunCell key={run.runId} saved={run} source={() => sourceAround(this)} />;
    }
    const table = this._mime === TABLE_MIME ? readTable(this._data) : null;
    return table ? (
      <TableView name={table.name} saved={table} />
    ) : (
      <div className="jp-loam-sub">{this.face.trans.__('This output is not one that Loam wrote.')}</div>
    );
  }
}

/** The code of the cell that a widget stands in; '' outside of one. */
function sourceAround(widget: Widget): string {
  for (let at: Widget | null = widget.parent; at; at = at.parent) {
    const model = (at as { model?: { sharedModel?: { getSource?: () => unknown } } }).model;
    const source = model?.sharedModel?.getSource?.();
    if (typeof source === 'string') {
      return source;
    }
  }
  return '';
}
