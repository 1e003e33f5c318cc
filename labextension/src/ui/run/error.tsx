/** Why it failed, before anything else. */
import * as React from 'react';
import type { Job } from '../../gen/loam/jobs/v1/jobs_pb';
import type { GetResponse } from '../../gen/loam/jobs/v1/service_pb';
import { hasEnded } from '../../model/state';
import { count } from '../../model/words';
import { Button, Text } from '../bits';
import { useFace } from '../face';

const MOST_MESSAGE = 4_000;
const MOST_TRACEBACK = 100_000;
// eslint-disable-next-line no-control-regex
const COLOUR = /\u001b\[[0-9;]*m/g;

export function ErrorBlock(props: { job: Job; detail: GetResponse }): JSX.Element | null {
  const { job, detail } = props;
  const { trans, actions } = useFace();
  const [isOpen, setOpen] = React.useState(false);
  const failure = detail.outcome?.failure ?? (hasEnded(job) ? undefined : detail.attempts.at(-1)?.failure);
  const message = (failure?.message || job.error).replace(COLOUR, '');
  if (!message && !failure?.kind) {
    return null;
  }
  if (!hasEnded(job)) {
    return (
      <div className="jp-loam-notice">
        <span className="jp-loam-st jp-loam-warn" aria-hidden="true" />
        <span>
          {trans.__('The last attempt failed:')} <Text value={message} most={500} />
        </span>
      </div>
    );
  }
  const [first, ...more] = message.split('\n');
  const traceback = (failure?.traceback ?? '').replace(COLOUR, '').trimEnd();
  const lines = traceback ? traceback.split('\n').length : 0;
  return (
    <section className="jp-loam-error" role="alert" aria-label={trans.__('Error')}>
      <h2>
        {failure?.kind ? (
          <>
            <Text value={failure.kind} most={200} />
            {': '}
          </>
        ) : null}
        <Text value={first} most={600} />
      </h2>
      {more.length ? (
        <div className="jp-loam-message">
          <Text value={more.join('\n')} lines most={MOST_MESSAGE} />
        </div>
      ) : null}
      {failure?.permanent ? <div>{trans.__('A retry cannot mend this; a change of code or table can.')}</div> : null}
      {isOpen ? (
        <pre tabIndex={0}>
          <Text value={traceback} lines most={MOST_TRACEBACK} />
        </pre>
      ) : null}
      <div className="jp-loam-acts">
        {lines ? (
          <Button
            kind="small quiet"
            icon={isOpen ? 'down' : 'right'}
            label={trans._n('Traceback, %1 line', 'Traceback, %1 lines', lines, count(lines))}
            expanded={isOpen}
            onClick={() => setOpen(!isOpen)}
          />
        ) : null}
        <Button
          kind="small quiet"
          icon="copy"
          label={trans.__('Copy')}
          onClick={() => actions.copy(`${failure?.kind ?? ''}: ${message}\n${traceback}`)}
        />
      </div>
    </section>
  );
}
