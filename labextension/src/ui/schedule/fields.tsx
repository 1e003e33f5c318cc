/** The controls of a form: a labelled row, its problem below it, text fields, and choices as segments. */
import * as React from 'react';
import type { Trans } from '../../model/words';
import { Text } from '../bits';
import { useFace } from '../face';

/** One line of the form. What belongs to one field is labelled by `htmlFor`, what belongs to several is a group. */
export function Line(props: { label: string; htmlFor?: string; children: React.ReactNode }): JSX.Element {
  const id = React.useId();
  return props.htmlFor ? (
    <>
      <label htmlFor={props.htmlFor}>{props.label}</label>
      <div>{props.children}</div>
    </>
  ) : (
    <>
      <div className="lb" id={id}>
        {props.label}
      </div>
      <div role="group" aria-labelledby={id}>
        {props.children}
      </div>
    </>
  );
}

export function Problem(props: { id?: string; text?: string }): JSX.Element | null {
  const { trans } = useFace();
  return props.text ? (
    <div className="jp-loam-problem" id={props.id} role="alert">
      <Text value={inWords(props.text, trans)} most={600} />
    </div>
  ) : null;
}

/** What is wrong, in words: the short names are those of model/draft.ts, all else is the server's own. */
function inWords(problem: string, trans: Trans): string {
  const [kind, least, most] = problem.split(' ');
  switch (kind) {
    case 'length':
      return trans.__('A length of time is wanted, as in 90 s, 30 min, 2 h or 1 d.');
    case 'time':
      return trans.__('A time is wanted, as in 2027-03-28T02:30.');
    case 'number':
      return trans.__('A whole number from %1 to %2 is wanted.', least, most);
    case 'empty':
      return trans.__('A name is wanted.');
    case 'json':
      return trans.__('A JSON object is wanted, as in {"day": "2027-03-25"}.');
    default:
      return problem;
  }
}

export function Input(props: {
  value: string;
  onChange: (value: string) => void;
  label?: string;
  id?: string;
  problem?: string;
  mono?: boolean;
  type?: string;
  list?: string;
  placeholder?: string;
  width?: number;
}): JSX.Element {
  const { value, label, id, problem, mono, type = 'text', list, placeholder, width } = props;
  return (
    <input
      id={id}
      className={`jp-loam-in${mono ? ' mono' : ''}${width ? ' fixed' : ''}`}
      style={width ? { width } : undefined}
      aria-label={label}
      aria-invalid={problem ? true : undefined}
      type={type}
      list={list}
      placeholder={placeholder}
      spellCheck={false}
      autoComplete="off"
      value={value}
      onChange={event => props.onChange(event.target.value)}
    />
  );
}

export interface Choice<T> {
  value: T;
  label: string;
}

/** One of a few: a radio group, one tab stop, arrows choose. */
export function Segments<T extends string | number>(props: {
  label: string;
  value: T;
  choices: readonly Choice<T>[];
  onChange: (value: T) => void;
}): JSX.Element {
  const { label, value, choices } = props;
  const group = React.useRef<HTMLDivElement>(null);
  const at = choices.findIndex(choice => choice.value === value);
  const onKeyDown = (event: React.KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (by) {
      event.preventDefault();
      const to = (at + by + choices.length) % choices.length;
      props.onChange(choices[to].value);
      group.current?.querySelectorAll('button')[to]?.focus();
    }
  };
  return (
    <div ref={group} className="jp-loam-seg" role="radiogroup" aria-label={label} onKeyDown={onKeyDown}>
      {choices.map((choice, place) => (
        <button
          key={choice.value}
          type="button"
          role="radio"
          aria-checked={choice.value === value}
          tabIndex={place === Math.max(0, at) ? 0 : -1}
          onClick={() => props.onChange(choice.value)}
        >
          {choice.label}
        </button>
      ))}
    </div>
  );
}
