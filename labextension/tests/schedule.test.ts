import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { JobSpecSchema } from '../src/gen/loam/jobs/v1/jobs_pb';
import { FireSchema, MissedPolicy, OverlapPolicy, ParameterSchema, ScheduleSchema } from '../src/gen/loam/jobs/v1/schedules_pb';
import type { Problems } from '../src/model/draft';
import { SCHEDULED_AT, belowRoot, draftOf, fieldOf, fresh, requestOf, ruleOf, valuesOf } from '../src/model/draft';
import { gapMs, lines, outage } from '../src/model/fires';
import { lengthOf, lengthText } from '../src/model/lengths';
import { record } from '../src/model/state';
import { instantOf, wall } from '../src/model/zone';

const BERLIN = 'Europe/Berlin';
const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const job = create(JobSpecSchema, {
  task: {
    engine: 'notebook',
    name: 'daily.ipynb',
    payload: bytes({ kind: 'notebook', source: '{}', path: '/lab/daily.ipynb', params: {}, kernel: 'python3', cell_limit_s: 0 })
  }
});
const parameters = [
  create(ParameterSchema, { name: 'day', type: 'date' }),
  create(ParameterSchema, { name: 'n', type: 'int', defaultText: '15' }),
  create(ParameterSchema, { name: 'who', type: 'str' }),
  create(ParameterSchema, { name: 'loud', type: 'bool' })
];

describe('lengths of time', () => {
  it.each([
    ['90s', 90_000],
    ['30 min', 1_800_000],
    ['1.5 h', 5_400_000],
    ['1 d', 86_400_000],
    ['', 0],
    ['0', 0],
    ['soon', null],
    ['15', null],
    ['-5 s', null]
  ])('reads %j', (text, ms) => expect(lengthOf(text)).toBe(ms));

  it('says a length in its largest whole unit, and reads it again', () => {
    for (const ms of [1, 1_000, 90_000, 3_600_000, 86_400_000, 5_400_000]) {
      expect(lengthOf(lengthText(ms))).toBe(ms);
    }
    expect(lengthText(5_400_000)).toBe('90 min');
  });
});

describe('wall times in a zone', () => {
  it.each([
    ['2027-01-31T06:00', BERLIN, '2027-01-31T05:00:00.000Z'],
    ['2027-07-31', BERLIN, '2027-07-30T22:00:00.000Z'],
    ['2027-03-28T02:30', BERLIN, '2027-03-28T01:30:00.000Z'],
    ['2027-10-31T02:30', BERLIN, '2027-10-31T00:30:00.000Z'],
    ['2027-04-04T01:45', 'Australia/Lord_Howe', '2027-04-03T14:45:00.000Z'],
    ['2027-01-01T00:00', 'Pacific/Chatham', '2026-12-31T10:15:00.000Z']
  ])('%s in %s', (text, zone, utc) => expect(new Date(instantOf(text, zone) ?? 0).toISOString()).toBe(utc));

  it.each(['', 'tomorrow', '2027-13-01T00:00'])('%j is none', text => expect(instantOf(text, BERLIN)).toBeNull());

  it('gives the wall time back', () => expect(instantOf(wall(1_800_000_000_000, BERLIN), BERLIN)).toBe(1_800_000_000_000));
});

describe('the form', () => {
  it('starts with what the file says, and nothing that would be sent wrong', () => {
    const draft = fresh(job, BERLIN);
    expect([draft.name, draft.kernel, draft.zone]).toEqual(['daily', 'python3', BERLIN]);
    const { request, problems } = requestOf(draft, job, parameters);
    expect(problems).toEqual({});
    expect(request.rule).toMatchObject({ cron: '0 6 * * *', zone: BERLIN });
    expect(request.notice).toEqual({ webhook: '', secret: '', mail: [], on: [] });
    expect(request.job.retry).toMatchObject({ maxAttempts: 1, maxLost: 2 });
  });

  it('sends parameters as values, those that are left as they are not at all', () => {
    const draft = { ...fresh(job, BERLIN), params: { day: SCHEDULED_AT, n: '7', who: '12', loud: 'true' } };
    const payload = record(requestOf(draft, job, parameters).request.job.task?.payload ?? new Uint8Array());
    expect(payload.params).toEqual({ day: SCHEDULED_AT, n: 7, who: '12', loud: true });
    expect(payload.source).toBe('{}');
    expect(valuesOf({ n: 'seven', who: '""', day: '2027-03-25' }, parameters)).toEqual({ n: 'seven', who: '', day: '2027-03-25' });
  });

  it('names each field that cannot be sent', () => {
    const wrong = { name: ' ', retries: '-1', cap: '0', timeout: 'soon', jitter: '5', keepOutputs: '0', start: 'x', when: 'every' as const, every: '' };
    const { problems } = requestOf({ ...fresh(job, BERLIN), ...wrong }, job, parameters);
    expect(Object.keys(problems).sort()).toEqual(['cap', 'every', 'jitter', 'keepOutputs', 'name', 'retries', 'start', 'timeout']);
    const once: Problems = {};
    ruleOf({ ...fresh(job, BERLIN), when: 'once', once: '2027-01-01T06:00, never' }, once);
    expect(once).toEqual({ once: 'time' });
  });

  it('shows a schedule as it was typed, and sends the same again', () => {
    const typed = {
      ...fresh(job, BERLIN),
      name: 'early',
      params: { day: '2027-03-25', n: '7', who: '12' },
      when: 'once' as const,
      cron: '',
      every: '',
      once: '2027-05-01T06:00',
      start: '2027-04-01T00:00',
      missed: MissedPolicy.MISSED_ALL,
      overlap: OverlapPolicy.OVERLAP_REPLACE,
      jitter: '90 s',
      keepOutputs: '30',
      retries: '2',
      timeout: '30 min',
      cellTimeout: '1500 ms',
      mail: 'a@example.org, b@example.org',
      tags: 'a b'
    };
    const { request } = requestOf(typed, job, parameters);
    const again = draftOf(create(ScheduleSchema, { ...request, sourceSha256: '9c41' }), parameters);
    expect(again).toEqual({ ...typed, source: 'kept' });
    const dated = create(JobSpecSchema, { task: { payload: bytes({ params: { day: { $date: '2027-03-25' }, who: '"x"' } }) } });
    expect(draftOf(create(ScheduleSchema, { job: dated }), parameters).params).toEqual({ day: '2027-03-25', who: '"\\"x\\""' });
  });

  it.each([
    ['params.n', 'param:n'],
    ['params.nn', 'params'],
    ['zone', 'zone'],
    ['notice.mail', 'mail'],
    ['policy.jitter_ms', 'jitter'],
    ['cron', 'when'],
    ['job', ''],
    ['', '']
  ])('%s of the contract is %s of the form', (field, of) => expect(fieldOf(field, ['n'])).toBe(of));

  it('finds a file below the root of Lab only', () => {
    expect(belowRoot('/home/a b/lab/x/daily.ipynb', 'file:///home/a%20b/lab')).toBe('x/daily.ipynb');
    expect(belowRoot('/home/a b/lab2/daily.ipynb', 'file:///home/a%20b/lab')).toBeNull();
    expect(belowRoot('/anything', '')).toBeNull();
  });
});

const fire = (local: string, more = {}) => {
  const atMs = BigInt(Date.parse(local));
  return create(FireSchema, { atMs, local, utc: new Date(Number(atMs)).toISOString(), ...more });
};
const SPRING = [
  fire('2027-03-27T02:15:00+01:00'),
  fire('2027-03-28T03:00:00+02:00', { clocksChange: true }),
  fire('2027-03-29T02:15:00+02:00'),
  fire('2027-03-30T02:15:00+02:00')
];

describe('what a rule would do', () => {
  it('says which wall time does not exist', () => {
    const shown = lines(SPRING);
    expect(shown.map(line => line.clocks)).toEqual([null, { turn: 'forward', gap: '02:15' }, null, null]);
    expect([shown[0].time, shown[0].offset, shown[0].utc]).toEqual(['02:15', '+01:00', '01:15']);
  });

  it('names the year where it is another one', () => {
    const yearly = lines([fire('2027-01-01T06:00:00+00:00'), fire('2028-01-01T06:00:00+00:00')]);
    expect(yearly.map(line => /202\d/.test(line.day))).toEqual([false, true]);
  });

  it('says that clocks go back', () => {
    const autumn = [fire('2027-10-30T06:00:00+02:00', { clocksChange: true }), fire('2027-10-31T06:00:00+01:00', { clocksChange: true })];
    expect(lines(autumn).map(line => line.clocks)).toEqual([{ turn: 'back', gap: '' }, { turn: 'back', gap: '' }]);
  });

  it.each([
    [MissedPolicy.MISSED_SKIP, 31, 0, 0],
    [MissedPolicy.MISSED_LATEST, 31, 1, 0],
    [MissedPolicy.MISSED_ALL, 31, 4, 0],
    [MissedPolicy.MISSED_ALL, 1, 1, 3]
  ])('policy %s with %s days: %s runs', (missed, days, runs, tooOld) => {
    expect(outage(SPRING, { missed, cap: 100, lookBackMs: days * 86_400_000 })).toMatchObject({ missed: 4, runs, tooOld });
  });

  it('says nothing of no fires', () => {
    expect(outage([], { missed: MissedPolicy.MISSED_ALL, cap: 1, lookBackMs: 1 })).toBeNull();
    expect([gapMs(SPRING), gapMs([])]).toEqual([83_700_000, 0]);
  });
});
