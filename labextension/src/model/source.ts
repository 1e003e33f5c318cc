/** The code of a run as people read it: of a notebook its code cells, each under a line with its number. */

export function readable(source: string, kind: unknown): string {
  if (kind !== 'notebook') {
    return source;
  }
  try {
    const { cells } = JSON.parse(source) as { cells: { cell_type: string; source: string | string[] }[] };
    return cells
      .map((cell, place) => ({ place, text: Array.isArray(cell.source) ? cell.source.join('') : cell.source, is: cell.cell_type }))
      .filter(cell => cell.is === 'code' && cell.text)
      .map(cell => `# %% [${cell.place + 1}]\n${cell.text}`)
      .join('\n\n');
  } catch {
    return source;
  }
}
