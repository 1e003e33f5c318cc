/** The keys of a list, a tree or a grid. */
import type * as React from 'react';

/** Act on a key alone; with Ctrl, Alt or Meta it is the browser's or Lab's. */
export function onKeys(keys: Record<string, () => void>): (event: React.KeyboardEvent) => void {
  return event => {
    const act = event.ctrlKey || event.altKey || event.metaKey ? undefined : keys[event.key];
    if (act) {
      event.preventDefault();
      event.stopPropagation();
      act();
    }
  };
}
