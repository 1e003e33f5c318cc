/** An executed notebook as it was kept. Its outputs are shown as those of a stranger: no scripts. */
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
