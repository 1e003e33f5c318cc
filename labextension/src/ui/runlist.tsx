/** The listbox of runs: one tab stop, days as groups, only what is on screen in the document. */
import * as React from 'react';
import { defaultRangeExtractor, useVirtualizer } from '@tanstack/react-virtual';
import type { DayRow, Row } from '../model/days';
import { grouped } from '../model/days';
import { hasEnded, wordOf } from '../model/state';
import type { Trans } from '../model/words';
import { day } from '../model/words';
import { Text, useNow, useSignal } from './bits';
import { useFace } from './face';
import { RunRow } from './runrow';

const DAY_HEIGHT = 22;
const ROW_HEIGHT = 43;
const BAR_HEIGHT = 50;

/** Today, Thu 25 Mar · Yesterday · 23 Mar 2027 */
export function dayName(at: string, nowMs: number, trans: Trans): string {
  const date = new Date(`${at}T12:00:00`);
  const short = date.toLocaleDateString(undefined, { weekday: 'short', day: 'numeric', month: 'short' });
  if (at === day(nowMs)) {
    return trans.__('Today, %1', short);
  }
  return at === day(nowMs - 86_400_000) ? trans.__('Yesterday') : short;
}

function heightOf(row: Row): number {
  if (row.kind === 'day') {
    return DAY_HEIGHT;
  }
  return !hasEnded(row.job) && row.job.progress?.fraction !== undefined ? BAR_HEIGHT : ROW_HEIGHT;
}

export function RunList(): JSX.Element {
  const { loam, trans, actions } = useFace();
  useSignal(loam.changed, change => change === 'runs' || change === 'active' || change === 'rights');
  const { jobs, next } = loam.runs;
  const { rows: all, at } = React.useMemo(() => grouped(jobs, next !== ''), [jobs, next]);
  const nowMs = useNow(jobs.slice(0, 200).some(job => !hasEnded(job)));
  const scroller = React.useRef<HTMLDivElement>(null);
  const prefix = React.useId();
  const activePlace = loam.runs.placeOf(loam.active);
  const activeAt = activePlace < 0 ? -1 : at[activePlace];
  const virtual = useVirtualizer({
    count: all.length,
    getScrollElement: () => scroller.current,
    estimateSize: row => heightOf(all[row]),
    getItemKey: index => {
      const row = all[index];
      return row.kind === 'day' ? row.day : row.job.id;
    },
    overscan: 6,
    // The active row stays in the document, or aria-activedescendant would point at nothing.
    rangeExtractor: range => {
      const shown = defaultRangeExtractor(range);
      return activeAt < 0 || shown.includes(activeAt) ? shown : [...shown, activeAt].sort((a, b) => a - b);
    }
  });
  // A row grows by its bar: the sizes are taken again when the rows with one change.
  const bars = React.useMemo(
    () => all.flatMap((row, index) => (heightOf(row) === BAR_HEIGHT ? [index] : [])).join(),
    [all]
  );
  React.useEffect(() => virtual.measure(), [virtual, bars]);
  const shown = virtual.getVirtualItems();
  const lastShown = shown.length ? shown[shown.length - 1].index : 0;
  React.useEffect(() => {
    if (lastShown > all.length - 40) {
      void loam.more();
    }
  }, [loam, lastShown, all.length]);
  const waiting = shown.flatMap(one => {
    const row = all[one.index];
    return row?.kind === 'run' && wordOf(row.job) === 'queued' ? [row.job.id] : [];
  });
  const waitingKey = waiting.join();
  React.useEffect(() => loam.showQueued(waitingKey ? waitingKey.split(',') : []), [loam, waitingKey]);

  const move = (by: number | 'first' | 'last') => {
    const last = jobs.length - 1;
    const to = by === 'first' ? 0 : by === 'last' ? last : Math.min(last, Math.max(0, activePlace + by));
    if (last >= 0) {
      loam.setActive(jobs[to].id);
      virtual.scrollToIndex(to === 0 ? 0 : at[to]);
    }
  };
  const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 300) / ROW_HEIGHT) - 1);
  const keys: Record<string, () => void> = {
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    PageDown: () => move(page),
    PageUp: () => move(-page),
    Home: () => move('first'),
    End: () => move('last'),
    Enter: () => loam.active && actions.open(loam.active)
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    const act = event.ctrlKey || event.altKey || event.metaKey ? undefined : keys[event.key];
    if (act) {
      event.preventDefault();
      event.stopPropagation();
      act();
    }
  };
  const runAt = (event: React.SyntheticEvent): string =>
    (event.target as Element).closest<HTMLElement>('[data-run]')?.dataset.run ?? '';

  const groups: { row: DayRow; members: typeof shown }[] = [];
  for (const one of shown) {
    const row = all[one.index];
    const head = row.kind === 'day' ? row : row.head;
    const last = groups[groups.length - 1];
    if (last?.row === head) {
      last.members.push(one);
    } else {
      groups.push({ row: head, members: [one] });
    }
  }
  return (
    <div
      ref={scroller}
      className="jp-loam-list"
      role="listbox"
      aria-label={trans.__('Runs')}
      tabIndex={0}
      aria-activedescendant={activeAt >= 0 ? `${prefix}${loam.active}` : undefined}
      onKeyDown={onKeyDown}
      onFocus={() => {
        if (activeAt < 0) {
          move('first');
        }
      }}
      onMouseDown={event => {
        const id = runAt(event);
        if (id) {
          loam.setActive(id);
        }
      }}
      onClick={event => {
        const id = runAt(event);
        if (id && !(event.target as Element).closest('.act')) {
          actions.open(id);
        }
      }}
    >
      <div role="presentation" style={{ height: virtual.getTotalSize(), position: 'relative' }}>
        {groups.map(({ row, members }) => (
          <div
            key={row.day}
            role="group"
            aria-label={`${dayName(row.day, nowMs, trans)}${row.isWhole ? `, ${runsOf(row.count, trans)}` : ''}`}
          >
            {members.map(one => {
              const element = all[one.index];
              return (
                <div
                  key={one.key}
                  role="presentation"
                  className="jp-loam-place"
                  style={{ transform: `translateY(${one.start}px)`, height: one.size }}
                >
                  {element.kind === 'day' ? (
                    <div className="jp-loam-day" aria-hidden="true">
                      {dayName(element.day, nowMs, trans)}
                      {element.isWhole ? <span>{runsOf(element.count, trans)}</span> : null}
                    </div>
                  ) : (
                    <RunRow
                      job={element.job}
                      id={`${prefix}${element.job.id}`}
                      place={element.place}
                      total={next === '' ? jobs.length : -1}
                      nowMs={nowMs}
                      isActive={element.job.id === loam.active}
                      mine={loam.actor}
                      trans={trans}
                      onAct={loam.canWrite ? () => void actions.redrive({ jobIds: [element.job.id] }) : undefined}
                    />
                  )}
                </div>
              );
            })}
          </div>
        ))}
      </div>
      {loam.error && !jobs.length ? (
        <div className="jp-loam-notice bad" role="presentation">
          <Text value={loam.error} />
        </div>
      ) : null}
    </div>
  );
}

function runsOf(count: number, trans: Trans): string {
  return trans._n('%1 run', '%1 runs', count, count.toLocaleString('en'));
}
