/** Views that are opened later come later: the sidebar does without their code. */
import * as React from 'react';
import { useFace } from './face';

/** The component that `load` brings when it is first shown. */
export function later<P extends object>(load: () => Promise<React.ComponentType<P>>): React.FC<P> {
  // React's type of a lazy component says less than that it takes what its component takes.
  const Loaded = React.lazy(async () => ({ default: await load() })) as unknown as React.FC<P>;
  return function Later(props: P): JSX.Element {
    const { trans } = useFace();
    return (
      <React.Suspense fallback={<div className="jp-loam-sub">{trans.__('Loading…')}</div>}>
        <Loaded {...props} />
      </React.Suspense>
    );
  };
}
