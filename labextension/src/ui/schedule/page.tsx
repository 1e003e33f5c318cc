/** A schedule by itself: when next, what became of its last ticks, cell by cell, and why. */
import * as React from 'react';
import type { Backfill, Schedule } from '../../gen/loam/jobs/v1/schedules_pb';
import { BackfillState } from '../../gen/loam/jobs/v1/schedules_pb';
import { Jobs } from '../../gen/loam/jobs/v1/service_pb';
import type { Column, Matrix, Row } from '../../model/matrix';
import { markAt, matrixOf, summary, usual } from '../../model/matrix';
import { SCHEDULE_GLYPH, scheduleWord } from '../../model/schedules';
import { hasEnded, wordOf } from '../../model/state';
import type { Trans } from '../../model/words';
import { count, duration, instant } from '../../model/words';
import { Banner } from '../banner';
import { Button, Glyph, Text, useNow, useSignal, wordIn } from '../bits';
import { useFace } from '../face';
import { useRead } from '../section';
import { useChanges } from './changes';
import { Fires } from './fires';
import type { Place } from './matrix';
import { MatrixGrid, markIn, tickName, whyNot } from './matrix';
import { nextOf, scheduleWordIn } from './words';

const SHOWN = 30;
const LISTED = 10;

export function SchedulePage(props: { id: string; onName: (name: string) => void }): JSX.Element {
  const { id, onName } = props;
  const { loam, trans } = useFace();
  useSignal(loam.changed, change => change === 'rights' || change === 'server');
  const changes = useChanges(1_000);
  const { value, error } = useRead(async () => {
    const [got, past] = await Promise.all([
      loam.call(Jobs.method.getSchedule, { scheduleId: id }),
      loam.call(Jobs.method.listTicks, { scheduleId: id, limit: SHOWN, withCells: true })
    ]);
    const words = got.schedule?.rule
      ? await loam.call(Jobs.method.previewSchedule, { rule: got.schedule.rule, count: 1 }).then(
          said => said.words,
          () => ''
        )
      : '';
    return { ...got, ticks: past.ticks, words };
  }, `${id}/${changes}`);
  const name = value?.schedule?.name ?? '';
  React.useEffect(() => {
    if (name) {
      onName(name);
    }
  }, [name, onName]);
  const one = value?.schedule;
  const nowMs = useNow(Boolean(one?.waiting));
  const matrix = React.useMemo(() => matrixOf(value?.ticks ?? [], nowMs), [value, nowMs]);
  if (!value || !one || (error && !value)) {
    return (
      <article className="jp-loam-page">
        <Banner />
        {error ? (
          <div className="jp-loam-notice bad" role="alert">
            <Text value={error} most={500} />
          </div>
        ) : (
          <p role="status">{trans.__('Reading the schedule…')}</p>
        )}
      </article>
    );
  }
  const word = scheduleWord(one);
  return (
    <article className={`jp-loam-page${loam.server.kind === 'lost' || error ? ' jp-loam-stale' : ''}`} aria-label={one.name}>
      <Banner />
      {error ? (
        <div className="jp-loam-notice bad" role="alert">
          <Text value={error} most={500} />
        </div>
      ) : null}
      <header className="jp-loam-title">
        <span className={`jp-loam-st ${SCHEDULE_GLYPH[word]}`} aria-hidden="true" />
        <h1>
          <Text value={one.name} most={300} />
        </h1>
        <Acts one={one} />
      </header>
      <div className="jp-loam-facts">
        <span>
          <b>{scheduleWordIn(trans, word)}</b>
        </span>
        {value.words ? (
          <span>
            <Text value={value.words} most={300} />
          </span>
        ) : null}
        <span title={instant(Number(one.nextAtMs))}>{nextOf(one, nowMs, trans)}</span>
        <span>
          <Text value={one.job?.task?.name ?? ''} most={100} />
          {one.followsFile ? `, ${trans.__('the latest file')}` : one.sourceSha256 ? `, ${trans.__('copy %1', one.sourceSha256.slice(0, 8))}` : ''}
        </span>
      </div>
      {one.broken ? (
        <div className="jp-loam-notice bad" role="alert">
          <span>
            {trans.__('It does not fire, its row cannot be read:')} <Text value={one.broken} most={500} />
          </span>
        </div>
      ) : null}
      {matrix.columns.length ? <Past matrix={matrix} /> : <p className="jp-loam-sub">{trans.__('Nothing fired yet.')}</p>}
      <Backfills all={value.backfills} />
      <section className="jp-loam-nextfires" aria-label={trans.__('Next fires')}>
        <Fires fires={value.next} zone={one.rule?.zone || 'UTC'} />
      </section>
    </article>
  );
}

/** Runs of a range that has passed, as far as they were made. */
function Backfills({ all }: { all: readonly Backfill[] }): JSX.Element | null {
  const { loam, trans, actions } = useFace();
  if (!all.length) {
    return null;
  }
  return (
    <section aria-label={trans.__('Backfills')}>
      <h2>{trans.__('Backfills')}</h2>
      <ul className="jp-loam-plain">
        {all.slice(0, LISTED).map(one => {
          const isActive = one.state === BackfillState.BACKFILL_ACTIVE;
          const glyph = isActive ? 'jp-loam-go' : one.state === BackfillState.BACKFILL_DONE ? 'jp-loam-ok' : 'jp-loam-cancel';
          const word = isActive
            ? trans.__('backfilling')
            : one.state === BackfillState.BACKFILL_DONE
              ? trans.__('all made')
              : trans.__('cancelled');
          return (
            <li key={one.id} className="jp-loam-inline">
              <span className={`jp-loam-st ${glyph}`} style={{ '--p': Math.round((100 * one.made) / Math.max(1, one.total)) } as React.CSSProperties}>
                {word}
              </span>
              <span>
                {trans.__('%1 of %2 made, %3 live', count(one.made), count(one.total), count(one.live))}
              </span>
              <span className="jp-loam-sub">
                {instant(Number(one.fromMs))} – {instant(Number(one.toMs))}
              </span>
              {isActive && loam.canWrite ? (
                <Button kind="small" label={trans.__('Cancel')} title={trans.__('Make no more runs; those made go on')} onClick={() => void actions.cancelBackfill(one.id)} />
              ) : null}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Acts({ one }: { one: Schedule }): JSX.Element {
  const { loam, trans, actions } = useFace();
  return (
    <div className="jp-loam-acts" role="toolbar" aria-label={trans.__('Actions')}>
      {loam.canWrite && !one.broken ? (
        <>
          <Button icon="play" label={trans.__('Trigger…')} title={trans.__('Make a run now, with other parameters if you like')} onClick={() => void actions.trigger(one.id)} />
          <Button
            icon={one.paused ? 'again' : 'pause'}
            label={one.paused ? trans.__('Resume') : trans.__('Pause')}
            onClick={() => void actions.setSchedulePaused(one.id, !one.paused)}
          />
        </>
      ) : null}
      {loam.canWrite ? <Button label={trans.__('Edit…')} onClick={() => actions.editSchedule(one.id)} /> : null}
      {loam.canWrite && !one.broken ? <Button label={trans.__('Backfill…')} onClick={() => void actions.backfill(one.id)} /> : null}
      <Button label={trans.__('All runs')} title={trans.__('Show only its runs in the sidebar')} onClick={() => actions.showRunsOf(one.id, one.name)} />
      {loam.canWrite ? <Button kind="icon" icon="trash" label={trans.__('Delete…')} onClick={() => void actions.removeSchedule(one.id)} /> : null}
    </div>
  );
}

function Past({ matrix }: { matrix: Matrix }): JSX.Element {
  const { trans, actions } = useFace();
  const [chosen, setChosen] = React.useState<{ key: string; index: number } | null>(null);
  const { columns, rows } = matrix;
  // A new tick moves the columns: what was chosen stays chosen. At first, the last run, at the cell that failed.
  const found = chosen ? columns.findIndex(column => column.key === chosen.key) : -1;
  const column = found < 0 ? columns.length - 1 : found;
  const failed = Math.max(
    0,
    rows.findIndex(row => row.index >= 0 && markAt(columns[column], row) === 'failed')
  );
  const row = chosen && found >= 0 ? Math.max(0, rows.findIndex(one => one.index === chosen.index)) : failed;
  const at: Place = { column, row };
  const counts = summary(matrix).map(([mark, many]) => `${count(many)} ${markIn(trans, mark)}`);
  const open = (to: Column, cell: Row) => {
    if (!to.job) {
      return;
    }
    if (cell.index >= 0 && to.cells.has(cell.index)) {
      actions.openExecuted(to.job.id, cell.index);
    } else {
      actions.open(to.job.id);
    }
  };
  return (
    <>
      <section aria-label={trans.__('Past runs')}>
        <h2>
          {trans._n('Last tick', 'Last %1 ticks', columns.length, String(columns.length))}{' '}
          <span className="jp-loam-sub">{counts.join(', ')}</span>
        </h2>
        <MatrixGrid
          matrix={matrix}
          at={at}
          onAt={place => setChosen({ key: columns[place.column].key, index: rows[place.row].index })}
          onOpen={open}
        />
      </section>
      <Chosen matrix={matrix} column={columns[column]} place={column} row={rows[row]} />
      <Runs columns={columns} trans={trans} />
    </>
  );
}

/** What stands at the chosen place of the matrix. */
function Chosen(props: { matrix: Matrix; column: Column; place: number; row: Row }): JSX.Element {
  const { matrix, column, place, row } = props;
  const { loam, trans, actions } = useFace();
  const { job } = column;
  const mark = markAt(column, row);
  const cell = column.cells.get(row.index);
  const before = usual(matrix, row, place);
  const tookMs = row.index < 0 ? column.lengthMs : Number(cell?.tookMs ?? 0n);
  const what = row.index < 0 ? trans.__('Run') : trans.__('Cell %1', String(row.index + 1));
  const error = cell?.error || (mark === 'failed' && row.index < 0 ? (job?.error ?? '') : '');
  return (
    <section className={mark === 'failed' ? 'jp-loam-error' : 'jp-loam-chosen'} aria-label={`${what}, ${tickName(column)}`} aria-live="polite">
      <h2>
        {`${what}, ${tickName(column)}: `}
        {job ? markIn(trans, mark) : whyNot(column, trans)}
        {tookMs ? ` ${trans.__('after %1', duration(tookMs))}` : ''}
      </h2>
      {error ? (
        <div>
          <Text value={error} most={600} />
        </div>
      ) : null}
      {before.count ? (
        <div className="jp-loam-sub">
          {before.failures
            ? trans.__('Failed %1 times before; %2 went well, median %3.', String(before.failures), String(before.count), duration(before.medianMs))
            : trans.__('Never failed before: %1 went well, median %2.', String(before.count), duration(before.medianMs))}
        </div>
      ) : null}
      {job ? (
        <div className="jp-loam-acts">
          <Button kind="small" label={trans.__('Open run')} onClick={() => actions.open(job.id)} />
          {column.cells.size ? (
            <Button
              kind="small"
              label={row.index < 0 ? trans.__('Open executed notebook') : trans.__('Open notebook at cell %1', String(row.index + 1))}
              onClick={() => actions.openExecuted(job.id, row.index < 0 ? undefined : row.index)}
            />
          ) : null}
          {loam.canWrite && mark === 'failed' && hasEnded(job) && !job.tombstone ? (
            <Button kind="small" icon="again" label={trans.__('Retry')} onClick={() => void actions.retry(job.id)} />
          ) : null}
        </div>
      ) : null}
    </section>
  );
}

function Runs({ columns, trans }: { columns: readonly Column[]; trans: Trans }): JSX.Element {
  const { actions } = useFace();
  return (
    <section aria-label={trans.__('Runs')}>
      <h2>{trans.__('Runs')}</h2>
      <table className="jp-loam-grid" aria-label={trans.__('Runs')}>
        <tbody>
          {[...columns]
            .reverse()
            .slice(0, LISTED)
            .map(column => (
              <tr key={column.key}>
                <td title={instant(Number(column.tick.atMs))}>{tickName(column)}</td>
                <td>{column.job ? <Glyph word={wordOf(column.job)}>{wordIn(trans, wordOf(column.job))}</Glyph> : <span className="jp-loam-sub">{whyNot(column, trans)}</span>}</td>
                <td className="r">{column.lengthMs ? duration(column.lengthMs) : ''}</td>
                <td className="w jp-loam-sub">
                  {column.job && column.job.attempts > 1 ? trans.__('attempt %1', String(column.job.attempts)) : ''}
                </td>
                <td>
                  {column.job ? (
                    <button type="button" className="jp-loam-link" aria-label={trans.__('open the run of %1', tickName(column))} onClick={() => actions.open(column.job?.id ?? '')}>
                      {trans.__('open')}
                    </button>
                  ) : null}
                </td>
              </tr>
            ))}
        </tbody>
      </table>
    </section>
  );
}
