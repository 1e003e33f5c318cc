/** The small parts of every view: text that is data, glyphs, icons, buttons, clocks. */
import * as React from 'react';
import type { ISignal } from '@lumino/signaling';
import type { Word } from '../model/state';
import { GLYPH } from '../model/state';
import type { Trans } from '../model/words';
import { age, instant, pieces } from '../model/words';

/** Data as text: isolated in its direction, control characters spelled out. */
export function Text(props: { value: string; lines?: boolean; most?: number }): JSX.Element {
  const { value, lines, most } = props;
  const found = pieces(value, { lines, most });
  return (
    <bdi>
      {found.map((piece, place) =>
        piece.escaped ? (
          <span key={place} className="jp-loam-esc">
            {piece.text}
          </span>
        ) : (
          piece.text
        )
      )}
    </bdi>
  );
}

export function Icon(props: { name: string }): JSX.Element {
  return <span className={`jp-loam-i i-${props.name}`} aria-hidden="true" />;
}

/** A state's glyph, with its word unless it stands beside it. */
export function Glyph(props: { word: Word; fraction?: number; children?: React.ReactNode }): JSX.Element {
  const { word, fraction, children } = props;
  const isTurning = word === 'running' && fraction === undefined;
  const style = fraction === undefined ? undefined : ({ '--p': Math.round(fraction * 100) } as React.CSSProperties);
  return (
    <span
      className={`jp-loam-st ${GLYPH[word]}${isTurning ? ' spin' : ''}`}
      style={style}
      aria-hidden={children ? undefined : true}
    >
      {children}
    </span>
  );
}

export function Bar(props: { fraction: number; label: string }): JSX.Element {
  const percent = Math.round(props.fraction * 100);
  return (
    <span className="jp-loam-bar" role="progressbar" aria-label={props.label} aria-valuenow={percent}>
      <i style={{ width: `${percent}%` }} />
    </span>
  );
}

export function Button(props: {
  label: string;
  icon?: string;
  kind?: 'go' | 'small' | 'icon' | 'small quiet' | '';
  title?: string;
  disabled?: boolean;
  pressed?: boolean;
  expanded?: boolean;
  onClick: (event: React.MouseEvent) => void;
}): JSX.Element {
  const isIcon = props.kind === 'icon';
  return (
    <button
      type="button"
      className={`jp-loam-btn ${props.kind ?? ''}`}
      aria-label={isIcon ? props.label : undefined}
      title={props.title ?? (isIcon ? props.label : undefined)}
      aria-pressed={props.pressed}
      aria-expanded={props.expanded}
      disabled={props.disabled}
      onClick={props.onClick}
    >
      {props.icon ? <Icon name={props.icon} /> : null}
      {isIcon ? null : props.label}
    </button>
  );
}

/** A field in which one looks for something by its text. */
export function Search(props: {
  label: string;
  placeholder: string;
  value: string;
  onChange: (value: string) => void;
  onKeyDown?: (event: React.KeyboardEvent) => void;
}): JSX.Element {
  return (
    <input
      className="jp-loam-in"
      type="search"
      aria-label={props.label}
      placeholder={props.placeholder}
      value={props.value}
      onChange={event => props.onChange(event.target.value)}
      onKeyDown={props.onKeyDown}
    />
  );
}

/** An instant as its age; the instant with its zone on hover. */
export function When(props: { atMs: number; nowMs: number; className?: string }): JSX.Element {
  return (
    <time
      className={props.className ?? ''}
      title={instant(props.atMs)}
      dateTime={props.atMs ? new Date(props.atMs).toISOString() : undefined}
    >
      {props.atMs ? age(props.atMs, props.nowMs) : ''}
    </time>
  );
}

/** The time, every second while `isWanted`; every half minute otherwise. */
export function useNow(isWanted: boolean): number {
  const [now, setNow] = React.useState(Date.now());
  React.useEffect(() => {
    const timer = setInterval(
      () => {
        if (!document.hidden) {
          setNow(Date.now());
        }
      },
      isWanted ? 1_000 : 30_000
    );
    return () => clearInterval(timer);
  }, [isWanted]);
  return Math.max(now, 0);
}

/** Render again when a signal says so. */
export function useSignal<T>(signal: ISignal<unknown, T>, heeds: (value: T) => boolean = () => true): void {
  const [, again] = React.useReducer((count: number) => count + 1, 0);
  const test = React.useRef(heeds);
  test.current = heeds;
  React.useEffect(() => {
    const heed = (_: unknown, value: T) => {
      if (test.current(value)) {
        again();
      }
    };
    signal.connect(heed);
    again();
    return () => {
      signal.disconnect(heed);
    };
  }, [signal]);
}

/** A state's word in the user's language. */
export function wordIn(trans: Trans, word: Word): string {
  switch (word) {
    case 'blocked':
      return trans.__('blocked');
    case 'scheduled':
      return trans.__('scheduled');
    case 'queued':
      return trans.__('queued');
    case 'running':
      return trans.__('running');
    case 'retrying':
      return trans.__('retrying');
    case 'stalled':
      return trans.__('stalled');
    case 'cancelling':
      return trans.__('cancelling');
    case 'succeeded':
      return trans.__('succeeded');
    case 'failed':
      return trans.__('failed');
    case 'dead letter':
      return trans.__('dead letter');
    case 'cancelled':
      return trans.__('cancelled');
    case 'unknown':
      return trans.__('unknown');
  }
}
