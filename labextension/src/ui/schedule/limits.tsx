/** What happens to one run: retries, limits, its queue; and who is told. */
import * as React from 'react';
import { NoticeKind } from '../../gen/loam/jobs/v1/schedules_pb';
import type { Draft, Problems } from '../../model/draft';
import { useFace } from '../face';
import { Input, Line, Problem } from './fields';

interface Props {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  problems: Problems;
}

export function Limits({ draft, change, problems, isNotebook }: Props & { isNotebook: boolean }): JSX.Element {
  const { trans } = useFace();
  return (
    <>
      <Line label={trans.__('On failure')}>
        <div className="jp-loam-inline">
          <Input width={44} label={trans.__('Retries')} value={draft.retries} problem={problems.retries} onChange={retries => change({ retries })} />
          <span>{trans.__('retries, the first after at most')}</span>
          <Input width={64} label={trans.__('Pause before a retry')} value={draft.backoff} problem={problems.backoff} onChange={backoff => change({ backoff })} />
          <span className="jp-loam-sub">{trans.__('then twice as long each time')}</span>
        </div>
        <Problem text={problems.retries ?? problems.backoff} />
      </Line>
      <Line label={trans.__('Limits')}>
        <div className="jp-loam-inline">
          <Input width={72} label={trans.__('Time limit of a run')} placeholder={trans.__('none')} value={draft.timeout} problem={problems.timeout} onChange={timeout => change({ timeout })} />
          <span>{isNotebook ? trans.__('a run,') : trans.__('a run')}</span>
          {isNotebook ? (
            <>
              <Input width={72} label={trans.__('Time limit of a cell')} placeholder={trans.__('none')} value={draft.cellTimeout} problem={problems.cellTimeout} onChange={cellTimeout => change({ cellTimeout })} />
              <span>{trans.__('a cell')}</span>
            </>
          ) : null}
        </div>
        <Problem text={problems.timeout ?? problems.cellTimeout} />
      </Line>
      <Line label={trans.__('Outputs')}>
        <div className="jp-loam-inline">
          <span>{trans.__('kept of the last')}</span>
          <Input width={52} label={trans.__('Keep the outputs of so many runs')} placeholder={trans.__('all')} value={draft.keepOutputs} problem={problems.keepOutputs} onChange={keepOutputs => change({ keepOutputs })} />
          <span>{trans.__('runs')}</span>
        </div>
        <Problem text={problems.keepOutputs} />
      </Line>
      <Line label={trans.__('Queue, tags')}>
        <div className="jp-loam-inline">
          <Input width={110} label={trans.__('Queue')} value={draft.queue} problem={problems.queue} onChange={queue => change({ queue })} />
          <Input label={trans.__('Tags, separated by spaces')} placeholder={trans.__('tags')} value={draft.tags} problem={problems.tags} onChange={tags => change({ tags })} />
        </div>
        <Problem text={problems.queue ?? problems.tags} />
      </Line>
    </>
  );
}

export function Told({ draft, change, problems }: Props): JSX.Element {
  const { trans } = useFace();
  const kinds: readonly [NoticeKind, string][] = [
    [NoticeKind.ON_FAILURE, trans.__('failed')],
    [NoticeKind.ON_RECOVERY, trans.__('recovered')],
    [NoticeKind.ON_MISSED, trans.__('missed')],
    [NoticeKind.ON_SUCCESS, trans.__('succeeded')]
  ];
  const toggle = (kind: NoticeKind) =>
    change({ on: draft.on.includes(kind) ? draft.on.filter(one => one !== kind) : [...draft.on, kind] });
  return (
    <Line label={trans.__('Tell')}>
      <Input label={trans.__('Mail addresses, separated by commas')} placeholder={trans.__('mail addresses')} value={draft.mail} problem={problems.mail} onChange={mail => change({ mail })} />
      <Problem text={problems.mail} />
      <div className="jp-loam-inline below">
        <Input label={trans.__('Webhook')} placeholder={trans.__('webhook, https://…')} value={draft.webhook} problem={problems.webhook} onChange={webhook => change({ webhook })} />
        <Input label={trans.__('What signs the webhook, by reference')} placeholder={trans.__('signed by env:NAME or file:/PATH')} value={draft.secret} problem={problems.secret} onChange={secret => change({ secret })} />
      </div>
      <Problem text={problems.webhook ?? problems.secret} />
      <div className="jp-loam-checks">
        {kinds.map(([kind, label]) => (
          <label key={kind}>
            <input type="checkbox" checked={draft.on.includes(kind)} onChange={() => toggle(kind)} />
            {label}
          </label>
        ))}
      </div>
      <div className="jp-loam-sub">
        {draft.mail.trim() || draft.webhook.trim()
          ? trans.__('Once per run, after its last attempt. Lab tells whoever made the schedule of failures and missed ticks, too.')
          : trans.__('Without mail and webhook only Lab tells whoever made the schedule, of failures and missed ticks.')}
      </div>
    </Line>
  );
}
