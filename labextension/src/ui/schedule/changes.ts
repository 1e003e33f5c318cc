/** When to read schedules again. */
import * as React from 'react';
import { useFace } from '../face';
import { useTicks } from '../section';

/** A word that changes at once with a schedule, and at most every `everyMs` with runs. */
export function useChanges(everyMs: number): string {
  const { loam } = useFace();
  const ticks = useTicks(everyMs);
  const [changes, add] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    const heed = (_: unknown, change: string) => {
      if (change === 'schedules') {
        add();
      }
    };
    loam.changed.connect(heed);
    return () => {
      loam.changed.disconnect(heed);
    };
  }, [loam]);
  return `${ticks}/${changes}`;
}
