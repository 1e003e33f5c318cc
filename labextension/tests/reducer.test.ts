import { describe, expect, it } from 'vitest';
import { EventKind, Hold, JobState } from '../src/gen/loam/jobs/v1/jobs_pb';
import { applyEvent } from '../src/model/reducer';
import { fractionOf, wordOf } from '../src/model/state';
import { NOW, event, job } from './make';

const RUNNING = { state: JobState.RUNNING, epoch: 1n };

describe('how far a run is', () => {
  it('is said while it runs: the progress of a lost attempt is not that of the next one', () => {
    const runs = job('a', { state: JobState.RUNNING, progress: { fraction: 0.43 } });
    const waits = job('a', { state: JobState.READY, attempts: 1, progress: { fraction: 0.43 } });
    expect([fractionOf(runs), fractionOf(waits)]).toEqual([0.43, undefined]);
  });
});

describe('what an event does to a run', () => {
  it('walks a run from queued to its end', () => {
    const steps: [Parameters<typeof event>[2], string][] = [
      [{ kind: EventKind.LEASED, ...RUNNING }, 'running'],
      [{ kind: EventKind.PROGRESSED, ...RUNNING, progress: { fraction: 0.5, text: 'half' } }, 'running'],
      [{ kind: EventKind.LEASE_EXPIRED, state: JobState.RUNNING, hold: Hold.STALLED, epoch: 2n }, 'stalled'],
      [{ kind: EventKind.RESUMED, state: JobState.RUNNING, epoch: 3n }, 'running'],
      [{ kind: EventKind.RETRYING, state: JobState.SCHEDULED, epoch: 3n, runAtMs: BigInt(NOW + 9), message: 'ValueError: x\nmore' }, 'retrying'],
      [{ kind: EventKind.DUE, state: JobState.READY, epoch: 3n }, 'queued'],
      [{ kind: EventKind.LEASED, state: JobState.RUNNING, epoch: 4n }, 'running'],
      [{ kind: EventKind.CANCEL_REQUESTED, state: JobState.RUNNING, epoch: 4n }, 'cancelling'],
      [{ kind: EventKind.ENDED, state: JobState.CANCELLED, epoch: 4n }, 'cancelled']
    ];
    let run = job('a');
    steps.forEach(([more, word], at) => {
      run = applyEvent(run, event(at, 'a', more));
      expect(wordOf(run)).toBe(word);
    });
    expect(run.attempts).toBe(2);
    expect(run.progress?.text).toBe('half');
    expect(run.finishedAtMs).toBe(BigInt(NOW));
  });

  it('keeps an outcome whatever comes late', () => {
    const ended = job('a', { state: JobState.SUCCEEDED, epoch: 3n });
    for (const kind of [EventKind.LEASED, EventKind.PROGRESSED, EventKind.RETRYING, EventKind.CANCEL_REQUESTED]) {
      expect(applyEvent(ended, event(1, 'a', { kind, state: JobState.RUNNING, epoch: 3n }))).toBe(ended);
    }
  });

  it('heeds no earlier lease and no other run', () => {
    const run = job('a', { state: JobState.RUNNING, epoch: 5n });
    expect(applyEvent(run, event(1, 'a', { kind: EventKind.ENDED, state: JobState.FAILED, epoch: 4n }))).toBe(run);
    expect(applyEvent(run, event(1, 'b', { kind: EventKind.ENDED, state: JobState.FAILED, epoch: 9n }))).toBe(run);
  });

  it('counts an attempt once, although its lease is told twice', () => {
    const leased = event(1, 'a', { kind: EventKind.LEASED, ...RUNNING });
    expect(applyEvent(applyEvent(job('a'), leased), leased).attempts).toBe(1);
  });

  it('says why it failed, in one line', () => {
    const failed = applyEvent(
      job('a', { state: JobState.RUNNING, epoch: 1n }),
      event(1, 'a', { kind: EventKind.ENDED, state: JobState.FAILED, epoch: 1n, message: 'E: one\ntwo' })
    );
    expect(failed.error).toBe('E: one');
  });

  it('takes a redriven dead letter off', () => {
    const dead = job('a', { state: JobState.FAILED, deadLetter: true });
    expect(wordOf(dead)).toBe('dead letter');
    expect(wordOf(applyEvent(dead, event(1, 'a', { kind: EventKind.REDRIVEN, state: JobState.FAILED })))).toBe('failed');
  });
});
