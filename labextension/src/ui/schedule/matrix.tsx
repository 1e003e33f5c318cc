/** The last ticks, time across and cells down: which cell, since when? A grid with one tab stop; Enter opens the run. */
import * as React from 'react';
import { TickHow } from '../../gen/loam/jobs/v1/schedules_pb';
import type { Column, Mark, Matrix, Row } from '../../model/matrix';
import { MARK, markAt } from '../../model/matrix';
import type { Trans } from '../../model/words';
import { duration, instant, plain } from '../../model/words';
import { Text } from '../bits';
import { useFace } from '../face';
import { onKeys } from '../keys';

const BAR_PX = 40;
const KEY: readonly Mark[] = ['succeeded', 'retried', 'restored', 'failed', 'not run', 'missed'];

export interface Place {
  column: number;
  row: number;
}

export function markIn(trans: Trans, mark: Mark): string {
  switch (mark) {
    case 'succeeded':
      return trans.__('succeeded');
    case 'retried':
      return trans.__('retried');
    case 'restored':
      return trans.__('restored');
    case 'failed':
      return trans.__('failed');
    case 'not run':
      return trans.__('not run');
    case 'missed':
      return trans.__('missed');
    case 'running':
      return trans.__('running');
    case 'waiting':
      return trans.__('waiting');
    case 'cancelled':
      return trans.__('cancelled');
  }
}

/** 25 Mar 02:30, in the viewer's zone. */
export function tickName(column: Column): string {
  return new Date(Number(column.tick.atMs)).toLocaleString(undefined, {
    day: 'numeric',
    month: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23'
  });
}

/** Why a tick made no run. */
export function whyNot(column: Column, trans: Trans): string {
  const { tick } = column;
  switch (tick.how) {
    case TickHow.MISSED:
      return tick.count > 1 ? trans.__('%1 ticks missed, until %2', String(tick.count), instant(Number(tick.untilMs))) : trans.__('missed');
    case TickHow.OVERLAPPED:
      return trans.__('skipped: an earlier run had not ended');
    default:
      return trans.__('its run was deleted');
  }
}

export function MatrixGrid(props: {
  matrix: Matrix;
  at: Place;
  onAt: (place: Place) => void;
  onOpen: (column: Column, row: Row) => void;
}): JSX.Element {
  const { matrix, at } = props;
  const { columns, rows, longestMs } = matrix;
  const { trans } = useFace();
  const table = React.useRef<HTMLTableElement>(null);
  const clamp = (value: number, most: number) => Math.max(0, Math.min(most, value));
  const move = (to: Place) => {
    const place = { column: clamp(to.column, columns.length - 1), row: clamp(to.row, rows.length - 1) };
    props.onAt(place);
    table.current?.querySelector<HTMLElement>(`[data-at="${place.column}/${place.row}"]`)?.focus();
  };
  const moves: Record<string, () => void> = {
    ArrowRight: () => move({ ...at, column: at.column + 1 }),
    ArrowLeft: () => move({ ...at, column: at.column - 1 }),
    ArrowDown: () => move({ ...at, row: at.row + 1 }),
    ArrowUp: () => move({ ...at, row: at.row - 1 }),
    Home: () => move({ ...at, column: 0 }),
    End: () => move({ ...at, column: columns.length - 1 }),
    PageUp: () => move({ ...at, row: 0 }),
    PageDown: () => move({ ...at, row: rows.length - 1 }),
    Enter: () => columns[at.column] && props.onOpen(columns[at.column], rows[at.row])
  };
  return (
    <>
      <div className="jp-loam-scroll">
        <table
          ref={table}
          className="jp-loam-matrix"
          role="grid"
          aria-label={trans.__('Runs across, cells down')}
          aria-rowcount={rows.length}
          aria-colcount={columns.length + 1}
          onKeyDown={onKeys(moves)}
        >
          <tbody>
            {rows.map((row, down) => (
              <tr key={row.index} role="row">
                <th scope="row" role="rowheader" className={down ? '' : 'jp-loam-sub'} title={plain(row.title) || undefined}>
                  {down ? (
                    <>
                      <span className="jp-loam-sub">{row.index + 1}</span>{' '}
                      <span className="jp-loam-mono">
                        <Text value={row.title} most={40} />
                      </span>
                    </>
                  ) : (
                    trans.__('run, by duration')
                  )}
                </th>
                {columns.map((column, across) => {
                  const mark = markAt(column, row);
                  const isAt = across === at.column && down === at.row;
                  const what = down ? trans.__('cell %1', String(row.index + 1)) : trans.__('run');
                  const said = `${tickName(column)}, ${what}: ${column.job ? markIn(trans, mark) : whyNot(column, trans)}`;
                  const height = Math.max(4, Math.round((column.lengthMs / longestMs) * BAR_PX));
                  return (
                    <td
                      key={column.key}
                      role="gridcell"
                      data-at={`${across}/${down}`}
                      className={`${down ? '' : 'bar'}${across === at.column ? ' at' : ''}`}
                      tabIndex={isAt ? 0 : -1}
                      aria-label={said}
                      aria-selected={isAt}
                      title={down || !column.lengthMs ? said : `${said}, ${duration(column.lengthMs)}`}
                      onClick={() => move({ column: across, row: down })}
                      onDoubleClick={() => props.onOpen(column, row)}
                    >
                      <i className={MARK[mark]} style={down ? undefined : { height: column.job ? height : 15 }} />
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
          {columns.length ? <Axis columns={columns} /> : null}
        </table>
      </div>
      <div className="jp-loam-key" aria-hidden="true">
        {KEY.map(mark => (
          <span key={mark}>
            <span className="jp-loam-matrix">
              <i className={MARK[mark]} />
            </span>
            {markIn(trans, mark)}
          </span>
        ))}
      </div>
    </>
  );
}

/** The first and the last tick, below their columns; wider than these where they are few. */
function Axis({ columns }: { columns: readonly Column[] }): JSX.Element {
  const [first, last] = [tickName(columns[0]), tickName(columns[columns.length - 1])];
  return (
    <tfoot aria-hidden="true">
      <tr>
        <td />
        <td colSpan={columns.length} className="jp-loam-matrixaxis jp-loam-sub">
          <span>
            <span>{first}</span>
            {last === first ? null : <span>{last}</span>}
          </span>
        </td>
      </tr>
    </tfoot>
  );
}
