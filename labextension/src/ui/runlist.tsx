/** The listbox of runs: one tab stop, days as groups, only what is on screen in the document. */
import * as React from 'react';
import type { DayRow, Row } from '../model/days';
import { grouped } from '../model/days';
import { revealed, rowAt, rowsIn, stacked } from '../model/rows';
import { fractionOf, hasEnded, wordOf } from '../model/state';
import type { Trans } from '../model/words';
import { day } from '../model/words';
import { Text, useNow, useSignal } from './bits';
import { useFace } from './face';
import { onKeys } from './keys';
import { RunRow } from './runrow';
import { useView } from './view';

const DAY_HEIGHT = 22;
const ROW_HEIGHT = 43;
const BAR_HEIGHT = 50;
const AROUND = 6;

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
  return fractionOf(row.job) === undefined ? ROW_HEIGHT : BAR_HEIGHT;
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
  const tops = React.useMemo(() => stacked(all.map(heightOf)), [all]);
  const view = useView(scroller);
  // The active row stays in the document, or aria-activedescendant would point at nothing.
  const shown = rowsIn(tops, view.top, view.top + view.height, AROUND, activeAt);
  const lastShown = rowAt(tops, view.top + view.height);
  React.useEffect(() => {
    if (lastShown > all.length - 40) {
      void loam.more();
    }
  }, [loam, lastShown, all.length]);
  // What is on screen stays there when runs come in above it.
  const anchor = React.useRef({ id: '', by: 0 });
  React.useLayoutEffect(() => {
    const place = loam.runs.placeOf(anchor.current.id);
    if (view.top > 0 && place >= 0) {
      view.scrollTo(tops[at[place]] + anchor.current.by);
    }
    // Only new rows move what is on screen.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [tops]);
  React.useLayoutEffect(() => {
    const first = rowAt(tops, view.top);
    const row = all[first]?.kind === 'day' ? first + 1 : first;
    const run = all[row];
    anchor.current = { id: run?.kind === 'run' ? run.job.id : '', by: view.top - tops[row] };
  });
  const waiting = shown.flatMap(one => {
    const row = all[one];
    return row?.kind === 'run' && wordOf(row.job) === 'queued' ? [row.job.id] : [];
  });
  const waitingKey = waiting.join();
  React.useEffect(() => loam.showQueued(waitingKey ? waitingKey.split(',') : []), [loam, waitingKey]);

  const move = (by: number | 'first' | 'last') => {
    const last = jobs.length - 1;
    const to = by === 'first' ? 0 : by === 'last' ? last : Math.min(last, Math.max(0, activePlace + by));
    if (last >= 0) {
      loam.setActive(jobs[to].id);
      view.scrollTo(to === 0 ? 0 : revealed(tops, at[to], view.top, view.height));
    }
  };
  const page = Math.max(1, Math.floor(view.height / ROW_HEIGHT) - 1);
  const keys: Record<string, () => void> = {
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    PageDown: () => move(page),
    PageUp: () => move(-page),
    Home: () => move('first'),
    End: () => move('last'),
    Enter: () => loam.active && actions.open(loam.active)
  };
  const runAt = (event: React.SyntheticEvent): string =>
    (event.target as Element).closest<HTMLElement>('[data-run]')?.dataset.run ?? '';

  const groups: { row: DayRow; members: number[] }[] = [];
  for (const one of shown) {
    const row = all[one];
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
      role={jobs.length ? 'listbox' : 'group'}
      aria-label={trans.__('Runs')}
      tabIndex={0}
      aria-activedescendant={activeAt >= 0 ? `${prefix}${loam.active}` : undefined}
      onKeyDown={onKeys(keys)}
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
      <div role="presentation" style={{ height: tops[all.length], position: 'relative' }}>
        {groups.map(({ row, members }) => (
          <div
            key={row.day}
            role="group"
            aria-label={`${dayName(row.day, nowMs, trans)}${row.isWhole ? `, ${runsOf(row.count, trans)}` : ''}`}
          >
            {members.map(one => {
              const element = all[one];
              return (
                <div
                  key={element.kind === 'day' ? element.day : element.job.id}
                  role="presentation"
                  className="jp-loam-place"
                  style={{ transform: `translateY(${tops[one]}px)`, height: heightOf(element) }}
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
                      stopper={loam.cancelledBy.get(element.job.id) ?? ''}
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
      {loam.error && !jobs.length && loam.server.kind !== 'lost' ? (
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
