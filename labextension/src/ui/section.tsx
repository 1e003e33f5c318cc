/** A part of the sidebar below the runs. One file in sections/ each: its head says how it is, its body is read when opened. */
import * as React from 'react';
import { Icon } from './bits';
import type { Face } from './face';
import { useFace } from './face';

export interface Section {
  id: string;
  title: (face: Face) => string;
  /** What stands right of the title, open or not. */
  Summary: React.ComponentType;
  Body: React.ComponentType;
  isOpen: boolean;
}

export function SectionView(props: { section: Section }): JSX.Element {
  const { section } = props;
  const face = useFace();
  const key = `loam-lab:section:${section.id}`;
  const [isOpen, setOpen] = React.useState(() => readOpen(key, section.isOpen));
  const title = section.title(face);
  const toggle = () => {
    setOpen(!isOpen);
    try {
      localStorage.setItem(key, String(!isOpen));
    } catch {
      // kept for this page only
    }
  };
  return (
    <section className="jp-loam-sec" aria-label={title}>
      <h3>
        <button type="button" aria-expanded={isOpen} onClick={toggle}>
          <Icon name={isOpen ? 'down' : 'right'} />
          {title}
        </button>
        <span>
          <section.Summary />
        </span>
      </h3>
      {isOpen ? (
        <div className="jp-loam-secbody">
          <section.Body />
        </div>
      ) : null}
    </section>
  );
}

function readOpen(key: string, otherwise: boolean): boolean {
  try {
    return (localStorage.getItem(key) ?? String(otherwise)) === 'true';
  } catch {
    return otherwise;
  }
}

/** A word in the place of what a section shows. */
export function Note(props: { children: React.ReactNode }): JSX.Element {
  return (
    <div className="jp-loam-line">
      <span />
      <span className="jp-loam-sub jp-loam-wraps">{props.children}</span>
    </div>
  );
}

/**
 * Something read from the server, and again when `again` changes; kept while it is read.
 * That the server is lost is no error of what is read: the banner says it, and what was read stays.
 */
export function useRead<T>(read: () => Promise<T>, again: unknown): { value: T | null; error: string } {
  const { loam } = useFace();
  const [state, setState] = React.useState<{ value: T | null; error: string }>({ value: null, error: '' });
  React.useEffect(() => {
    let isWanted = true;
    read().then(
      value => isWanted && setState({ value, error: '' }),
      (error: unknown) =>
        isWanted && setState(old => ({ ...old, error: error instanceof Error ? error.message : String(error) }))
    );
    return () => {
      isWanted = false;
    };
    // `read` is a new function each time; what it depends on is in `again`.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [again]);
  return loam.server.kind === 'lost' ? { ...state, error: '' } : state;
}

/** A number that grows when something happened that a section shows, at most every `everyMs`; and now and then anyway. */
export function useTicks(everyMs = 1_000): number {
  const { loam, isShown } = useFace();
  const [ticks, setTicks] = React.useState(0);
  React.useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const tick = () => {
      timer = undefined;
      if (!document.hidden && isShown()) {
        setTicks(count => count + 1);
      }
    };
    const heed = (_: unknown, change: string) => {
      if (change === 'counts' || change === 'server') {
        timer ??= setTimeout(tick, everyMs);
      }
    };
    const anyway = setInterval(tick, 30_000);
    loam.changed.connect(heed);
    return () => {
      clearTimeout(timer);
      clearInterval(anyway);
      loam.changed.disconnect(heed);
    };
  }, [loam, isShown, everyMs]);
  return ticks;
}
