/** Which rows of a long list are on screen. Their heights are known, so nothing is measured. */

/** Where each row begins, and after the last one where the list ends. */
export function stacked(heights: readonly number[]): readonly number[] {
  const tops = [0];
  for (const height of heights) {
    tops.push(tops[tops.length - 1] + height);
  }
  return tops;
}

/** The row that lies at a height; the last one below the end. */
export function rowAt(tops: readonly number[], y: number): number {
  let [low, high] = [0, Math.max(0, tops.length - 2)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= y) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/** The rows between two heights with some more around them, and one that is always kept (-1 for none). */
export function rowsIn(tops: readonly number[], from: number, to: number, around: number, kept: number): number[] {
  const count = tops.length - 1;
  if (!count) {
    return [];
  }
  const first = Math.max(0, rowAt(tops, from) - around);
  const last = Math.min(count - 1, rowAt(tops, to) + around);
  const found = Array.from({ length: last - first + 1 }, (_, at) => first + at);
  if (kept >= 0 && kept < count && (kept < first || kept > last)) {
    found.push(kept);
    found.sort((a, b) => a - b);
  }
  return found;
}

/** Where to scroll so that a row is on screen; where it is, if it is there already. */
export function revealed(tops: readonly number[], row: number, top: number, height: number): number {
  const [begin, end] = [tops[row], tops[row + 1]];
  return begin < top ? begin : end > top + height ? end - height : top;
}
