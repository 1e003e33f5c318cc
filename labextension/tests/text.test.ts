import { describe, expect, it } from 'vitest';
import { isSameCode, readRun, readTable } from '../src/model/bundle';
import { Log, found } from '../src/model/log';
import { readable } from '../src/model/source';
import { newsIn } from '../src/model/state';
import { age, duration, pieces, plain } from '../src/model/words';
import { output } from './make';

describe('text that is data', () => {
  it.each([
    ['<img src=x onerror=alert(1)>', '<img src=x onerror=alert(1)>'],
    ['a\u001b[31mred', 'a\\x1b[31mred'],
    ['one\ntwo\tthree', 'one\\ntwo\\tthree'],
    ['\u202eevil\u202c', '\\u202eevil\\u202c'],
    ['zero\u200bwidth', 'zero\\u200bwidth'],
    ['تقرير / отчёт 😀', 'تقرير / отчёт 😀'],
    ['half \ud83d pair', 'half \\ud83d pair'],
    ['\u0000', '\\x00']
  ])('spells out what would not be seen: %j', (given, said) => {
    expect(plain(given)).toBe(said);
  });

  it('cuts a line of 1 MB and says how long it is', () => {
    const shown = pieces('A'.repeat(1_000_000), { most: 100 });
    expect(shown.map(piece => piece.text)).toEqual(['A'.repeat(100), '… 1.0 MB']);
  });

  it('says times as they are useful', () => {
    expect([38, 4_200, 185_000, 7_800_000].map(duration)).toEqual(['38 ms', '4.2 s', '3 min 05 s', '2 h 10 min']);
    expect([0, 41_000, 240_000, 7_300_000, 200_000_000].map(ms => age(0, ms))).toEqual(['now', '41 s', '4 min', '2 h', '2 d']);
  });
});

describe('the log', () => {
  const stream = (text: string, name = 'stdout') => output({ output_type: 'stream', name, text });

  it('joins a line that came in parts, and keeps what a carriage return left', () => {
    const log = new Log();
    log.add([stream('one\ntw'), stream('o\n10 %\r20 %\n')], 3n);
    expect(log.lines.map(line => line.text)).toEqual(['one', 'two', '20 %']);
    expect(log.after).toBe(3n);
  });

  it('keeps attempts and streams apart', () => {
    const log = new Log();
    log.add([stream('out'), stream('err', 'stderr'), output({ output_type: 'stream', name: 'stderr', text: 'new' }, 2n)], 1n);
    expect(log.lines.map(line => `${line.kind}:${line.text}`)).toEqual(['out:out', 'err:err', 'err:new']);
  });

  it('shows errors, displays, and nonsense as it came', () => {
    const log = new Log();
    log.add(
      [
        output({ output_type: 'error', ename: 'E', evalue: 'v', traceback: ['\u001b[31mline 1\u001b[0m', 'line 2'] }),
        output({ output_type: 'display_data', data: { 'text/plain': 'a chart', 'image/png': 'x' } }),
        output({ output_type: 'display_data', data: { 'image/png': 'x' } }),
        output('not json <b>'),
        output('[1, 2]'),
        output('null')
      ],
      1n
    );
    expect(log.lines.map(line => line.text)).toEqual(['line 1', 'line 2', 'a chart', '[image/png]', 'not json <b>', '[]', '[]']);
  });

  it('survives a line of 1 MB, 30,000 lines and bytes that are no text', () => {
    const log = new Log();
    log.add([stream(`${'x'.repeat(1_000_000)}\n`)], 1n);
    expect(log.lines[0].text.length).toBeLessThan(21_000);
    log.add([stream('y\n'.repeat(30_000))], 2n);
    expect(log.lines).toHaveLength(20_000);
    expect(log.dropped).toBe(10_001);
    log.add([{ ...output(''), output: new Uint8Array([0xff, 0xfe, 0x00]) }], 3n);
    expect(log.lines.at(-1)?.text).toContain('\ufffd');
  });

  it('finds lines whatever their case', () => {
    const log = new Log();
    log.add([stream('dep_delay\nnothing\nDEP_TIME\n')], 1n);
    expect(found(log.lines, 'dep_')).toEqual([0, 2]);
    expect(found(log.lines, '')).toEqual([]);
  });
});

describe('a saved bundle', () => {
  const ID = '0190a0b0-0000-7000-8000-000000000001';

  it('gives an id only where it is one', () => {
    expect(readRun({ run_id: ID })?.runId).toBe(ID);
    for (const forged of ['../../api/contents', `${ID}/../x`, `${ID}\n`, 'javascript:alert(1)', '']) {
      expect(readRun({ run_id: forged })?.runId).toBe('');
    }
  });

  it.each([null, 1, 'x', [], {}, { run_id: 7 }, { run_id: { toString: () => ID } }])('is none: %j', value => {
    expect(readRun(value)).toBeNull();
  });

  it('is cut, whatever is in it', () => {
    const big = 'x'.repeat(10_000_000);
    const read = readRun({
      run_id: ID,
      name: big,
      state: big,
      error: big,
      elapsed_ms: -5,
      progress: { fraction: 1e9, text: { a: 1 } },
      snapshots: Array.from({ length: 10_000 }, () => ({ table: big, snapshot_id: 1 }))
    });
    expect(JSON.stringify(read).length).toBeLessThan(100_000);
    expect(read).toMatchObject({ elapsedMs: 0, fraction: 1, text: '' });
  });

  it('reads a table, and one that is nonsense', () => {
    expect(readTable({ name: 'lake.flights', totals: { rows: 3 }, columns: [{ id: 1, name: 'a', type: 'int', required: true }] })).toMatchObject({
      name: 'lake.flights',
      rows: 3,
      columns: [{ id: '1', name: 'a', type: 'int', required: true }]
    });
    expect(readTable({ name: 7, columns: 'x', snapshots: [null, 3] })).toMatchObject({ name: '7', columns: [], snapshots: [] });
    expect(readTable([])).toBeNull();
  });

  it('offers actions only where the cell holds the code that ran', () => {
    const ran = 'spark.range(10)\n';
    expect(isSameCode('%%loam spark --detach\nspark.range(10)', ran)).toBe(true);
    expect(isSameCode('\n%%loam spark\nspark.range(10)\n', ran)).toBe(true);
    expect(isSameCode('%%loam spark\nspark.range(11)', ran)).toBe(false);
    expect(isSameCode('spark.range(10)', ran)).toBe(false);
    expect(isSameCode('', ran)).toBe(false);
    expect(isSameCode('%%loam spark\n', undefined)).toBe(false);
  });
});

describe('what stands on the page of a run', () => {
  it('is the code of a notebook, not its file', () => {
    const cells = [
      { cell_type: 'code', source: ['n = 1\n', 'print(n)'] },
      { cell_type: 'markdown', source: 'words' },
      { cell_type: 'code', source: 'n + 1' }
    ];
    expect(readable(JSON.stringify({ cells }), 'notebook')).toBe('# %% [1]\nn = 1\nprint(n)\n\n# %% [3]\nn + 1');
    expect(readable('print(1)', 'file')).toBe('print(1)');
    expect(readable('{"cells": 7}', 'notebook')).toBe('{"cells": 7}');
  });

  it.each([
    ['running', ''],
    ['running, 41 s', ''],
    ['running, 1 min 13 s, 3 stages', '3 stages'],
    ['cell 2 of 9', 'cell 2 of 9']
  ])('is of the progress %s only %s', (progress, news) => expect(newsIn(progress)).toBe(news));
});
