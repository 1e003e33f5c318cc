import { describe, expect, it } from 'vitest';
import { revealed, rowAt, rowsIn, stacked } from '../src/model/rows';

describe('rows of known heights', () => {
  const tops = stacked([22, 43, 43, 50, 43]); // 0 22 65 108 158 201

  it('finds the row at each height, the edges belonging to the row that begins there', () => {
    expect([-5, 0, 21, 22, 64, 65, 157, 158, 200, 999].map(y => rowAt(tops, y))).toEqual([0, 0, 0, 1, 1, 2, 3, 4, 4, 4]);
  });

  it('shows what is on screen, some around it, and the kept one wherever it is', () => {
    expect(rowsIn(tops, 66, 70, 0, -1)).toEqual([2]);
    expect(rowsIn(tops, 66, 70, 1, -1)).toEqual([1, 2, 3]);
    expect(rowsIn(tops, 66, 70, 0, 4)).toEqual([2, 4]);
    expect(rowsIn(tops, 66, 70, 0, 0)).toEqual([0, 2]);
    expect(rowsIn(tops, 0, 999, 9, 2)).toEqual([0, 1, 2, 3, 4]);
    expect(rowsIn(tops, 66, 70, 0, 9)).toEqual([2]);
    expect(rowsIn(stacked([]), 0, 100, 5, 0)).toEqual([]);
  });

  it('scrolls no further than needed', () => {
    expect(revealed(tops, 1, 100, 60)).toBe(22);
    expect(revealed(tops, 4, 0, 60)).toBe(141);
    expect(revealed(tops, 2, 60, 60)).toBe(60);
  });
});
