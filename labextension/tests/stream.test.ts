import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Event } from '../src/gen/loam/jobs/v1/jobs_pb';
import { Stream } from '../src/model/stream';
import { event, told } from './make';

class FakeSocket {
  binaryType = '';
  onmessage: ((message: { data: unknown }) => void) | null = null;
  onclose: (() => void) | null = null;
  isClosed = false;
  constructor(readonly url: string) {}
  say(data: unknown) {
    this.onmessage?.({ data });
  }
  close() {
    this.isClosed = true;
  }
}

describe('the stream of events', () => {
  let sockets: FakeSocket[];
  let frames: (() => void)[];
  let heard: Event[];
  let gaps: number;
  let stream: Stream;
  beforeEach(() => {
    vi.useFakeTimers();
    sockets = [];
    frames = [];
    heard = [];
    gaps = 0;
    stream = new Stream({
      url: since => `ws://x/?since=${since}`,
      open: url => {
        sockets.push(new FakeSocket(url));
        return sockets[sockets.length - 1] as unknown as WebSocket;
      },
      random: () => 0.5,
      soon: run => frames.push(run)
    });
    stream.onEvents = events => heard.push(...events);
    stream.onGap = () => (gaps += 1);
    stream.connect();
  });
  afterEach(() => {
    stream.dispose();
    vi.useRealTimers();
  });

  it('hands over once a frame, in order', () => {
    sockets[0].say(told({ events: [event(1, 'a')], cursor: '1' }));
    sockets[0].say(told({ events: [event(2, 'b'), event(3, 'c')], cursor: '3' }));
    expect(heard).toEqual([]);
    expect(frames).toHaveLength(1);
    frames[0]();
    expect(heard.map(one => one.jobId)).toEqual(['a', 'b', 'c']);
  });

  it('comes back after the last cursor', () => {
    sockets[0].say(told({ events: [event(41, 'a')], cursor: '41' }));
    sockets[0].onclose?.();
    expect(stream.state.kind).toBe('lost');
    vi.advanceTimersByTime(500);
    expect(sockets[1].url).toBe('ws://x/?since=41');
  });

  it('waits longer each time, never longer than about 15 s, and starts over after a word', () => {
    const pauses: number[] = [];
    for (let at = 0; at < 9; at++) {
      const before = Date.now();
      sockets[sockets.length - 1].onclose?.();
      while (sockets.length === at + 1) {
        vi.advanceTimersByTime(10);
      }
      pauses.push(Date.now() - before);
    }
    expect(pauses.slice(0, 4)).toEqual([500, 1_000, 2_000, 4_000]);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(15_000);
    sockets[sockets.length - 1].say('{"server": "running"}');
    sockets[sockets.length - 1].onclose?.();
    const count = sockets.length;
    vi.advanceTimersByTime(500);
    expect(sockets.length).toBe(count + 1);
  });

  it('throws away what waits when there is a gap: the state is read anew', () => {
    sockets[0].say(told({ events: [event(1, 'a')], cursor: '1' }));
    sockets[0].say(told({ gap: true, cursor: '900' }));
    frames.forEach(run => run());
    expect(heard).toEqual([]);
    expect(gaps).toBe(1);
    expect(stream.cursor).toBe('900');
  });

  it('remembers since when the server is lost', () => {
    sockets[0].say('{"server": "lost", "message": "gone", "next_ms": 1000}');
    const since = stream.state.kind === 'lost' ? stream.state.sinceMs : -1;
    vi.advanceTimersByTime(5_000);
    sockets[0].say('{"server": "lost", "message": "gone", "next_ms": 1000}');
    expect(stream.state).toMatchObject({ kind: 'lost', sinceMs: since, message: 'gone' });
    sockets[0].say('{"server": "running"}');
    expect(stream.state.kind).toBe('running');
  });

  it('asks at most once when it is told to retry while it is connected', () => {
    stream.retry();
    expect(sockets).toHaveLength(1);
  });

  it('is silent after its end', () => {
    stream.dispose();
    expect(sockets[0].isClosed).toBe(true);
    vi.advanceTimersByTime(60_000);
    expect(sockets).toHaveLength(1);
  });
});
