/** What a rule and its policies would do, computed from its next fires. */
import type { Fire } from '../gen/loam/jobs/v1/schedules_pb';
import { MissedPolicy } from '../gen/loam/jobs/v1/schedules_pb';

/** A machine that is off from just before the first of some fires until just after the last: what happens then. */
export interface Outage {
  first: Fire;
  last: Fire;
  missed: number;
  /** How many of them run when it is back. */
  runs: number;
  tooOld: number;
}

const MOST = 4;
const LATE_MS = 120_000;

/** With fewer than one fire there is nothing to say. */
export function outage(
  fires: readonly Fire[],
  policy: { missed: MissedPolicy; cap: number; lookBackMs: number }
): Outage | null {
  const off = fires.slice(0, MOST);
  if (!off.length) {
    return null;
  }
  const last = off[off.length - 1];
  const back = Number(last.atMs) + LATE_MS;
  const young = off.filter(fire => back - Number(fire.atMs) <= policy.lookBackMs).length;
  const most = { [MissedPolicy.MISSED_SKIP]: 0, [MissedPolicy.MISSED_LATEST]: 1, [MissedPolicy.MISSED_ALL]: policy.cap };
  return {
    first: off[0],
    last,
    missed: off.length,
    runs: Math.min(young, most[policy.missed]),
    tooOld: off.length - young
  };
}

/** The shortest time between two of the fires; 0 where there are not two. */
export function gapMs(fires: readonly Fire[]): number {
  const gaps = fires.slice(1).map((fire, place) => Number(fire.atMs - fires[place].atMs));
  return gaps.length ? Math.min(...gaps) : 0;
}

export interface Shown {
  fire: Fire;
  /** Fri 26 Mar, in the rule's zone; with the year where it is another one than the first's. */
  day: string;
  time: string;
  /** +01:00, as the offset from UTC. */
  offset: string;
  utc: string;
  clocks: Clocks | null;
}

/** What clocks do within half a day of a fire. `gap`: the wall time that does not exist then; '' where it does. */
export interface Clocks {
  turn: 'forward' | 'back' | 'change';
  gap: string;
}

/** The lines of the list of fires. */
export function lines(fires: readonly Fire[]): Shown[] {
  const first = fires.length ? partsOf(fires[0].local)[0].slice(0, 4) : '';
  return fires.map((fire, place) => {
    const [date, time, offset] = partsOf(fire.local);
    return {
      fire,
      day: new Date(`${date}T12:00:00Z`).toLocaleDateString(undefined, {
        weekday: 'short',
        day: 'numeric',
        month: 'short',
        // Only where it is another one than that of the first line.
        year: date.startsWith(first) ? undefined : 'numeric',
        timeZone: 'UTC'
      }),
      time,
      offset,
      utc: fire.utc.slice(0, 10) === date ? fire.utc.slice(11, 16) : `${fire.utc.slice(8, 10)}. ${fire.utc.slice(11, 16)}`,
      clocks: fire.clocksChange ? clocksAt(fires, place) : null
    };
  });
}

function clocksAt(fires: readonly Fire[], place: number): Clocks {
  const before = place > 0 ? partsOf(fires[place - 1].local) : null;
  const after = place + 1 < fires.length ? partsOf(fires[place + 1].local) : null;
  const here = partsOf(fires[place].local);
  const from = minutes((before ?? here)[2]);
  const to = minutes((after ?? here)[2]);
  // A rule that fires at one wall time, except here.
  const isMoved = before !== null && after !== null && before[1] === after[1] && before[1] < here[1];
  return {
    turn: to > from ? 'forward' : to < from ? 'back' : 'change',
    gap: isMoved && to > from ? before[1] : ''
  };
}

/** Date, time and offset of an ISO instant. */
function partsOf(local: string): [string, string, string] {
  const offset = /(Z|[+-]\d{2}:\d{2})$/.exec(local)?.[1] ?? '';
  return [local.slice(0, 10), local.slice(11, 16), offset === 'Z' ? '+00:00' : offset];
}

function minutes(offset: string): number {
  const [hours, rest] = offset.slice(1).split(':').map(Number);
  return (offset.startsWith('-') ? -1 : 1) * (hours * 60 + rest);
}
