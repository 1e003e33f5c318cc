/** What stands above everything when something is missing: the server, or the right to change. */
import * as React from 'react';
import { age, clock, whole } from '../model/words';
import { Button, Text, useNow, useSignal } from './bits';
import { useFace } from './face';

export function Banner(): JSX.Element | null {
  const { loam, trans, actions } = useFace();
  useSignal(loam.changed, change => change === 'server');
  const server = loam.server;
  const nowMs = useNow(server.kind === 'lost');
  const [isStarting, setStarting] = React.useState(false);
  // A server that comes back within two seconds was not worth a word.
  if (server.kind !== 'lost' || nowMs - server.sinceMs < 2_000) {
    return null;
  }
  const left = server.nextAtMs - nowMs;
  return (
    <div className="jp-loam-banner" role="alert">
      <span className="jp-loam-st jp-loam-gone" aria-hidden="true" />
      <b>{trans.__('Server not reachable')}</b>
      <Button
        kind="small"
        label={isStarting ? trans.__('Trying…') : trans.__('Retry now')}
        disabled={isStarting}
        onClick={() => {
          setStarting(true);
          void actions.startServer().finally(() => setStarting(false));
        }}
      />
      <span className="jp-loam-sub">
        {left > 0 ? trans.__('Next try in %1. ', whole(left)) : ''}
        {trans.__('Runs go on in their workers; nothing is lost.')}{' '}
        {loam.seenMs
          ? trans.__('What you see is of %1, %2 old.', clock(loam.seenMs), age(loam.seenMs, nowMs))
          : ''}
        {server.message ? (
          <>
            {' '}
            <Text value={server.message.charAt(0).toUpperCase() + server.message.slice(1)} most={400} />
          </>
        ) : null}
      </span>
    </div>
  );
}

export function Rights(): JSX.Element | null {
  const { loam, trans } = useFace();
  useSignal(loam.changed, change => change === 'rights');
  if (loam.canWrite !== false) {
    return null;
  }
  return (
    <div className="jp-loam-notice dim">
      <span className="jp-loam-st jp-loam-lock" aria-hidden="true" />
      <span>{trans.__('You can look, not change: this Jupyter server gives you no write permission for runs.')}</span>
    </div>
  );
}
