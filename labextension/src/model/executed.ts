/** An executed notebook as it was kept. Its outputs are shown as those of a stranger: no scripts. */
import type { Cell } from '../gen/loam/jobs/v1/jobs_pb';
import { CellState } from '../gen/loam/jobs/v1/jobs_pb';
import type { Trans } from './words';

export interface KeptNotebook {
  nbformat: 4;
  cells: { metadata: Record<string, unknown> }[];
}

/** Read what a run left. A cell cannot claim to be trusted: trust is Jupyter's to give, and this is no file of it. */
export function readNotebook(content: Uint8Array, trans: Trans): KeptNotebook {
  const found = JSON.parse(new TextDecoder().decode(content)) as KeptNotebook;
  if (!Array.isArray(found.cells) || found.nbformat !== 4) {
    throw new Error(trans.__('what the run left is no notebook of format 4'));
  }
  for (const cell of found.cells) {
    cell.metadata = { ...cell.metadata };
    delete cell.metadata.trusted;
  }
  return found;
}

/** The cell at which a run failed; null where it did not, or not in one. */
export function failedCell(cells: readonly Cell[]): Cell | null {
  return cells.find(cell => cell.state === CellState.CELL_FAILED) ?? null;
}
