/** The code as it ran, with its hash; shown in parts where it is long. */
import * as React from 'react';
import { readable } from '../../model/source';
import { count } from '../../model/words';
import { Button, Text } from '../bits';
import { useFace } from '../face';

const FIRST_LINES = 30;
const MOST_LINES = 3_000;

export function Code(props: { payload: Record<string, unknown> }): JSX.Element | null {
  const { payload } = props;
  const { trans, actions } = useFace();
  const [isWhole, setWhole] = React.useState(false);
  const source = readable(typeof payload.source === 'string' ? payload.source : '', payload.kind);
  if (!source) {
    return null;
  }
  const lines = source.replace(/\n$/, '').split('\n');
  const shown = lines.slice(0, isWhole ? MOST_LINES : FIRST_LINES);
  const hash = typeof payload.sha256 === 'string' ? payload.sha256.slice(0, 8) : '';
  return (
    <section aria-label={trans.__('Code as it ran')}>
      <h2>
        {trans.__('Code as it ran')}{' '}
        <span className="jp-loam-sub">
          {typeof payload.path === 'string' ? <Text value={payload.path.split('/').pop() ?? ''} /> : null}
          {hash ? (
            <>
              {' sha256 '}
              <span className="jp-loam-mono" title={String(payload.sha256)}>
                {hash}
              </span>
            </>
          ) : null}
        </span>
        <span className="jp-loam-tools">
          <Button kind="icon" icon="copy" label={trans.__('Copy the code')} onClick={() => actions.copy(source)} />
        </span>
      </h2>
      <pre className="jp-loam-code" tabIndex={0}>
        {shown.map((line, place) => (
          <div key={place}>
            <span className="ln">{place + 1}</span>
            <Text value={line} lines most={2_000} />
          </div>
        ))}
      </pre>
      {lines.length > shown.length ? (
        <Button
          kind="small quiet"
          icon="down"
          label={trans.__('All %1 lines', count(lines.length))}
          onClick={() => setWhole(true)}
        />
      ) : null}
    </section>
  );
}
