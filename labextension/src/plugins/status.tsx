/** One word in the status bar: what runs, what is dead, whether the server is there. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';
import { count, whole } from '../model/words';
import { useNow, useSignal } from '../ui/bits';
import type { Face } from '../ui/face';
import { COMMANDS, ILoam } from '../tokens';

function Status(props: { face: Omit<Face, 'isShown'>; show: () => void }): JSX.Element {
  const { loam, trans } = props.face;
  useSignal(loam.changed, change => change === 'counts' || change === 'server');
  const server = loam.server;
  const nowMs = useNow(server.kind === 'lost');
  const running = Number(loam.counts?.running ?? 0n);
  const dead = Number(loam.counts?.deadLetters ?? 0n);
  if (server.kind === 'lost' && nowMs - server.sinceMs >= 2_000) {
    const left = Math.max(0, server.nextAtMs - nowMs);
    return (
      <button type="button" className="jp-loam-status jp-loam-st jp-loam-gone" onClick={props.show}>
        {trans.__('loam: not reachable, next try in %1', whole(left))}
      </button>
    );
  }
  return (
    <>
      <button type="button" className={`jp-loam-status jp-loam-st ${running ? 'jp-loam-go spin' : 'jp-loam-idle'}`} onClick={props.show} title={trans.__('Show the runs')}>
        {trans._n('%1 running', '%1 running', running, count(running))}
      </button>
      {dead ? (
        <button type="button" className="jp-loam-status jp-loam-st jp-loam-dead" onClick={props.show} title={trans.__('Show the runs')}>
          {trans._n('%1 dead letter', '%1 dead letters', dead, count(dead))}
        </button>
      ) : null}
    </>
  );
}

export const status: JupyterFrontEndPlugin<void> = {
  id: 'loam-lab:status',
  description: 'Runs in the status bar.',
  autoStart: true,
  requires: [ILoam],
  optional: [IStatusBar],
  activate: (app: JupyterFrontEnd, { face }: ILoam, bar: IStatusBar | null) => {
    const show = () => void app.commands.execute(COMMANDS.show);
    const item = ReactWidget.create(<Status face={face} show={show} />);
    item.addClass('jp-loam');
    item.addClass('jp-loam-statusitem');
    bar?.registerStatusItem('loam-lab:status', { item, align: 'left', rank: 10 });
  }
};
