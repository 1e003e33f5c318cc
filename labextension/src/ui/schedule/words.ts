/** How schedules read, in the user's language. */
import type { Schedule } from '../../gen/loam/jobs/v1/schedules_pb';
import type { ScheduleWord } from '../../model/schedules';
import type { Trans } from '../../model/words';
import { duration, whole } from '../../model/words';

export function scheduleWordIn(trans: Trans, word: ScheduleWord): string {
  switch (word) {
    case 'broken':
      return trans.__('broken');
    case 'paused':
      return trans.__('paused');
    case 'running':
      return trans.__('running');
    case 'queued':
      return trans.__('a run waits');
    case 'scheduled':
      return trans.__('scheduled');
    case 'over':
      return trans.__('over');
  }
}

/** in 15 h 48 min · in 12 s · due now · fires no more */
export function nextOf(one: Schedule, nowMs: number, trans: Trans): string {
  if (one.broken) {
    return trans.__('does not fire');
  }
  if (one.paused) {
    return trans.__('fires when it is resumed');
  }
  const leftMs = Number(one.nextAtMs) - nowMs;
  if (!one.nextAtMs) {
    return trans.__('fires no more');
  }
  if (leftMs <= 0) {
    return trans.__('due now');
  }
  const days = Math.floor(leftMs / 86_400_000);
  return trans.__('next in %1', days ? `${days} d` : leftMs < 60_000 ? whole(leftMs) : duration(leftMs));
}
