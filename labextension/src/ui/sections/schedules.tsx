/** Schedules: when each fires next, how its last run ended. A listbox; what can be done with the chosen one stands below. */
import * as React from 'react';
import type { Schedule } from '../../gen/loam/jobs/v1/schedules_pb';
import { Jobs } from '../../gen/loam/jobs/v1/service_pb';
import { SCHEDULE_GLYPH, lastWord, scheduleWord } from '../../model/schedules';
import { GLYPH } from '../../model/state';
import type { Trans } from '../../model/words';
import { ago, count, instant, plain } from '../../model/words';
import { Button, Search, Text, useNow, useSignal, wordIn } from '../bits';
import { useFace } from '../face';
import { onKeys } from '../keys';
import { useChanges } from '../schedule/changes';
import { Closed } from '../schedule/closed';
import { nextOf, scheduleWordIn } from '../schedule/words';
import type { Section } from '../section';
import { Note, useRead } from '../section';

const MOST = 100;
const SOON_MS = 90_000;

function Summary(): JSX.Element {
  const { loam, trans } = useFace();
  const { value } = useRead(() => loam.shared(Jobs.method.listSchedules), useChanges(3_000));
  const all = value?.schedules ?? [];
  if (!value || !all.length) {
    return <>{value ? trans.__('none yet') : ''}</>;
  }
  const bad = all.filter(one => one.broken || ['failed', 'dead letter'].includes(lastWord(one) ?? '')).length;
  const more = value.next ? '+' : '';
  if (bad) {
    return <>{trans.__('%1 of %2 failed last', String(bad), `${all.length}${more}`)}</>;
  }
  const paused = all.filter(one => one.paused).length;
  return <>{paused ? trans.__('%1, %2 paused', `${all.length}${more}`, String(paused)) : `${all.length}${more}`}</>;
}

function Body(): JSX.Element {
  const { loam, trans, actions } = useFace();
  useSignal(loam.changed, change => change === 'active' || change === 'rights');
  const [text, setText] = React.useState('');
  const changes = useChanges(2_000);
  const { value, error } = useRead(
    () => (text ? loam.call(Jobs.method.listSchedules, { text, limit: MOST }) : loam.shared(Jobs.method.listSchedules)),
    `${changes}/${text}`
  );
  const nowMs = useNow((value?.schedules ?? []).some(one => isSoon(one)));
  const prefix = React.useId();
  const all = value?.schedules ?? [];
  const at = all.findIndex(one => one.id === loam.activeSchedule);
  const active = at < 0 ? undefined : all[at];
  const choose = (place: number) => {
    const one = all[Math.max(0, Math.min(all.length - 1, place))];
    if (one) {
      loam.setActiveSchedule(one.id);
      document.getElementById(`${prefix}${one.id}`)?.scrollIntoView({ block: 'nearest' });
    }
  };
  const keys: Record<string, () => void> = {
    ArrowDown: () => choose(at + 1),
    ArrowUp: () => choose(at - 1),
    Home: () => choose(0),
    End: () => choose(all.length - 1),
    Enter: () => active && actions.openSchedule(active.id)
  };
  if (error || (!all.length && !text)) {
    const nothing = trans.__('None yet. "Schedule…" in a notebook\'s toolbar makes one.');
    return <Note>{error ? <Text value={error} /> : value ? nothing : '…'}</Note>;
  }
  return (
    <>
      {all.length > 8 || text ? (
        <div className="jp-loam-filter">
          <Search
            label={trans.__('Filter schedules by name')}
            placeholder={trans.__('Filter schedules')}
            value={text}
            onChange={setText}
          />
        </div>
      ) : null}
      <div
        role="listbox"
        aria-label={trans.__('Schedules')}
        tabIndex={0}
        className="jp-loam-schedules"
        aria-activedescendant={active ? `${prefix}${active.id}` : undefined}
        onKeyDown={onKeys(keys)}
        onFocus={() => all.some(one => one.id === loam.activeSchedule) || choose(0)}
      >
        {all.map(one => (
          <ScheduleRow
            key={one.id}
            one={one}
            id={`${prefix}${one.id}`}
            isActive={one === active}
            nowMs={nowMs}
            trans={trans}
            onChoose={() => loam.setActiveSchedule(one.id)}
            onOpen={() => actions.openSchedule(one.id)}
          />
        ))}
      </div>
      {value?.next ? <Note>{trans.__('%1 shown, more exist', count(all.length))}</Note> : null}
      {active ? <Acts one={active} /> : null}
      <Note>
        <Closed />
      </Note>
    </>
  );
}

/** Whether its next fire is so near that the seconds are counted. */
function isSoon(one: Schedule): boolean {
  const leftMs = Number(one.nextAtMs) - Date.now();
  return leftMs > -5_000 && leftMs < SOON_MS;
}

function ScheduleRow(props: {
  one: Schedule;
  id: string;
  isActive: boolean;
  nowMs: number;
  trans: Trans;
  onChoose: () => void;
  onOpen: () => void;
}): JSX.Element {
  const { one, nowMs, trans } = props;
  const word = scheduleWord(one);
  const last = lastWord(one);
  const lastAt = Number(one.last?.job?.finishedAtMs || one.last?.job?.createdAtMs || 0n);
  const said = last ? `${wordIn(trans, last)} ${ago(lastAt, nowMs, trans)}` : trans.__('no run yet');
  const next = nextOf(one, nowMs, trans);
  return (
    <div
      id={props.id}
      role="option"
      data-schedule={one.id}
      data-state={word}
      aria-selected={props.isActive}
      aria-label={`${plain(one.name)}, ${scheduleWordIn(trans, word)}, ${next}, ${trans.__('last run: %1', said)}`}
      className="jp-loam-schedule"
      title={[plain(one.name), one.nextAtMs ? instant(Number(one.nextAtMs)) : '', plain(one.broken)].filter(Boolean).join('\n')}
      onMouseDown={props.onChoose}
      onDoubleClick={props.onOpen}
    >
      <span className={`jp-loam-st ${SCHEDULE_GLYPH[word]}`} aria-hidden="true" />
      <span className="jp-loam-cut nm">
        <Text value={one.name} most={120} />
      </span>
      <span className="jp-loam-sub">{word === 'scheduled' ? next : scheduleWordIn(trans, word)}</span>
      <span className="jp-loam-sub two">
        {last ? <span className={`jp-loam-st ${GLYPH[last]}`}>{said}</span> : said}
        {(word === 'running' || word === 'queued') && one.nextAtMs ? `, ${next}` : ''}
      </span>
    </div>
  );
}

/** The same as in the context menu, for the pointer. */
function Acts({ one }: { one: Schedule }): JSX.Element {
  const { loam, trans, actions } = useFace();
  return (
    <div className="jp-loam-chips" role="toolbar" aria-label={trans.__('Of %1', plain(one.name, { most: 60 }))}>
      <Button kind="small" label={trans.__('Open')} onClick={() => actions.openSchedule(one.id)} />
      {loam.canWrite && !one.broken ? (
        <>
          <Button
            kind="small"
            label={one.paused ? trans.__('Resume') : trans.__('Pause')}
            onClick={() => void actions.setSchedulePaused(one.id, !one.paused)}
          />
          <Button kind="small" label={trans.__('Trigger…')} onClick={() => void actions.trigger(one.id)} />
        </>
      ) : null}
      {loam.canWrite ? <Button kind="small" label={trans.__('Edit…')} onClick={() => actions.editSchedule(one.id)} /> : null}
      <Button kind="small quiet" label={trans.__('Runs')} onClick={() => actions.showRunsOf(one.id, one.name)} />
      {loam.canWrite ? (
        <Button kind="small quiet" label={trans.__('Delete…')} onClick={() => void actions.removeSchedule(one.id)} />
      ) : null}
    </div>
  );
}

export const schedules: Section = {
  id: 'schedules',
  title: ({ trans }) => trans.__('Schedules'),
  Summary,
  Body,
  isOpen: true
};
