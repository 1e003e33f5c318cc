/** What part of a scrolling element is on screen. */
import * as React from 'react';
import { flushSync } from 'react-dom';

export interface View {
  top: number;
  height: number;
  scrollTo: (top: number) => void;
}

export function useView(scroller: React.RefObject<HTMLElement>): View {
  const [at, setAt] = React.useState({ top: 0, height: 600 });
  const look = React.useCallback(() => {
    const { scrollTop: top, clientHeight: height } = scroller.current ?? { scrollTop: 0, clientHeight: 0 };
    setAt(old => (old.top === top && old.height === height ? old : { top, height }));
  }, [scroller]);
  React.useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) {
      return;
    }
    // At once: rows that come a frame later are a gap that is seen.
    const onScroll = () => flushSync(look);
    element.addEventListener('scroll', onScroll, { passive: true });
    const sizes = new ResizeObserver(look);
    sizes.observe(element);
    look();
    return () => {
      element.removeEventListener('scroll', onScroll);
      sizes.disconnect();
    };
  }, [scroller, look]);
  const scrollTo = React.useCallback(
    (top: number) => {
      scroller.current?.scrollTo({ top });
      look();
    },
    [scroller, look]
  );
  return { ...at, scrollTo };
}
