/** The cells of a notebook's run, each with how it ended; each leads into the executed notebook. */
import * as React from 'react';
import type { Cell, Job } from '../../gen/loam/jobs/v1/jobs_pb';
import { ArtifactKind, CellState } from '../../gen/loam/jobs/v1/jobs_pb';
import type { GetResponse } from '../../gen/loam/jobs/v1/service_pb';
import { hasEnded } from '../../model/state';
import type { Trans } from '../../model/words';
import { duration } from '../../model/words';
import { Button, Text } from '../bits';
import { useFace } from '../face';

const MOST = 500;

export function Cells(props: { job: Job; detail: GetResponse }): JSX.Element | null {
  const { job, detail } = props;
  const { trans, actions } = useFace();
  const kept = detail.artifacts.find(one => one.kind === ArtifactKind.ARTIFACT_NOTEBOOK && one.kept);
  if (!detail.cells.length && !kept) {
    return null;
  }
  const failed = detail.cells.find(cell => cell.state === CellState.CELL_FAILED);
  return (
    <section aria-label={trans.__('Cells')}>
      <h2>
        {trans.__('Cells')}
        {kept ? (
          <span className="jp-loam-tools">
            <Button
              kind="small"
              label={failed ? trans.__('Open notebook at cell %1', String(failed.index + 1)) : trans.__('Open executed notebook')}
              onClick={() => actions.openExecuted(job.id, failed?.index)}
            />
          </span>
        ) : null}
      </h2>
      <table className="jp-loam-grid" aria-label={trans.__('Cells')}>
        <tbody>
          {detail.cells.slice(0, MOST).map(cell => {
            const { glyph, word } = stateOf(cell, hasEnded(job), trans);
            return (
              <tr key={cell.index}>
                <td className="r jp-loam-sub">{cell.index + 1}</td>
                <td>
                  <span className={`jp-loam-st ${glyph}`}>{word}</span>
                </td>
                <td className="r">{cell.tookMs ? duration(Number(cell.tookMs)) : ''}</td>
                <td className="w jp-loam-cut">
                  {kept ? (
                    <button type="button" className="jp-loam-link jp-loam-mono" onClick={() => actions.openExecuted(job.id, cell.index)}>
                      <Text value={cell.title || '…'} most={120} />
                    </button>
                  ) : (
                    <span className="jp-loam-mono">
                      <Text value={cell.title} most={120} />
                    </span>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

function stateOf(cell: Cell, isOver: boolean, trans: Trans): { glyph: string; word: string } {
  switch (cell.state) {
    case CellState.CELL_OK:
      return { glyph: 'jp-loam-ok', word: trans.__('succeeded') };
    case CellState.CELL_FAILED:
      return { glyph: 'jp-loam-bad', word: trans.__('failed') };
    case CellState.CELL_REPLAYED:
      return { glyph: 'jp-loam-kept', word: trans.__('restored') };
    case CellState.CELL_RUNNING:
      return isOver
        ? { glyph: 'jp-loam-lost', word: trans.__('not finished') }
        : { glyph: 'jp-loam-go spin', word: trans.__('running') };
    case CellState.CELL_WAITING:
      return isOver ? { glyph: 'jp-loam-none', word: trans.__('not run') } : { glyph: 'jp-loam-queue', word: trans.__('waiting') };
    case CellState.CELL_SKIPPED:
      return { glyph: 'jp-loam-none', word: trans.__('not run') };
    default:
      return unknownState(cell.state);
  }
}

/** A state of a newer server; one that was forgotten here does not compile. */
function unknownState(_state: never): { glyph: string; word: string } {
  return { glyph: 'jp-loam-none', word: '' };
}
