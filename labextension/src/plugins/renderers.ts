/** Renderers of runs and tables in notebooks. An ordinary plugin: a mime extension gets no connection. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { RUN_MIME, TABLE_MIME } from '../model/bundle';
import { ILoam } from '../tokens';
import { BundleWidget } from '../widgets';

export const renderers: JupyterFrontEndPlugin<void> = {
  id: 'loam-lab:renderers',
  description: 'Runs and tables in cells, which follow the server.',
  autoStart: true,
  requires: [ILoam, IRenderMimeRegistry],
  activate: (_app: JupyterFrontEnd, { face }: ILoam, registry: IRenderMimeRegistry) => {
    for (const mime of [RUN_MIME, TABLE_MIME]) {
      registry.addFactory({ safe: true, mimeTypes: [mime], createRenderer: () => new BundleWidget(face, mime) }, 0);
    }
  }
};
