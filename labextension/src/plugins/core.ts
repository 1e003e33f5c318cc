/** The plugin that others build on: one connection a page, and what a user can do with it. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ServerConnection } from '@jupyterlab/services';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { eventsUrl, mayWrite, sender } from '../connection';
import { caller } from '../model/call';
import { Loam } from '../model/loam';
import { Stream } from '../model/stream';
import { COMMANDS, ILoam } from '../tokens';
import { makeActions } from './actions';

export const core: JupyterFrontEndPlugin<ILoam> = {
  id: 'loam-lab:core',
  description: 'The connection to the loam server.',
  autoStart: true,
  provides: ILoam,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null): ILoam => {
    const settings = app.serviceManager.serverSettings ?? ServerConnection.makeSettings();
    const trans = (translator ?? nullTranslator).load('loam_lab');
    const loam = new Loam(caller(sender(settings)), new Stream({ url: since => eventsUrl(settings, since) }));
    const actions = makeActions(app, loam, settings, trans);
    app.commands.addCommand(COMMANDS.runAsJob, {
      label: trans.__('Run as Job…'),
      caption: trans.__('Run this file in a worker: it goes on when this tab, its kernel or its worker does not'),
      describedBy: { args: { type: 'object', properties: { path: { type: 'string' } } } },
      isVisible: () => loam.canWrite !== false,
      execute: args => actions.runAsJob(String(args.path ?? ''))
    });
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) {
        loam.wake();
      }
    });
    void mayWrite(settings).then(
      may => loam.setRights(may),
      () => loam.setRights(false)
    );
    loam.stream.connect();
    return { loam, face: { loam, trans, actions } };
  }
};
