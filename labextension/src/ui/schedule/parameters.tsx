/** The parameters of a job: one line for each that the notebook declares, or a JSON object where none can be read. */
import * as React from 'react';
import type { Parameter } from '../../gen/loam/jobs/v1/schedules_pb';
import type { Draft, Problems } from '../../model/draft';
import { SCHEDULED_AT } from '../../model/draft';
import { plain } from '../../model/words';
import { Text } from '../bits';
import { useFace } from '../face';
import { Input, Line, Problem } from './fields';

interface Props {
  params: Draft['params'];
  parameters: readonly Parameter[];
  problems: Problems;
  onChange: (params: Draft['params']) => void;
}

export function Parameters(props: Props): JSX.Element {
  const { params, parameters, problems } = props;
  const { trans } = useFace();
  const set = (name: string, value: string) => {
    const next = { ...params, [name]: value };
    if (value === '') {
      delete next[name];
    }
    props.onChange(next);
  };
  // What the schedule gives and the notebook no longer declares: it is shown, so that it can be taken out.
  const strange = Object.keys(params).filter(name => !parameters.some(one => one.name === name));
  return (
    <Line label={trans.__('Parameters')}>
      <div className="jp-loam-param">
        {parameters.map(one => (
          <React.Fragment key={one.name}>
            <span className="jp-loam-mono jp-loam-cut" title={plain(one.help) || undefined}>
              <Text value={one.name} most={80} />
            </span>
            <span className="jp-loam-sub jp-loam-cut" title={plain(one.annotation) || undefined}>
              <Text value={one.annotation || one.type} most={60} />
            </span>
            <Value one={one} value={params[one.name] ?? ''} problem={problems[`param:${one.name}`]} set={set} />
            {problems[`param:${one.name}`] ? (
              <div className="wide">
                <Problem text={problems[`param:${one.name}`]} />
              </div>
            ) : null}
          </React.Fragment>
        ))}
        {strange.map(name => (
          <React.Fragment key={name}>
            <span className="jp-loam-mono jp-loam-cut">
              <Text value={name} most={80} />
            </span>
            <span className="jp-loam-sub">{trans.__('unknown')}</span>
            <Input mono label={plain(name)} value={params[name]} onChange={value => set(name, value)} />
          </React.Fragment>
        ))}
      </div>
      {parameters.length || strange.length ? null : (
        <div className="jp-loam-sub jp-loam-lone">
          {trans.__('None: a cell tagged "parameters" declares them, as in day: date = date(2027, 3, 25)')}
        </div>
      )}
      <Problem text={problems.params} />
    </Line>
  );
}

function Value(props: {
  one: Parameter;
  value: string;
  problem?: string;
  set: (name: string, value: string) => void;
}): JSX.Element {
  const { one, value, problem, set } = props;
  const { trans } = useFace();
  const label = plain(one.name);
  const usual = one.defaultText ? trans.__('%1 (default)', plain(one.defaultText, { most: 80 })) : trans.__('none (default)');
  if (one.type === 'bool') {
    return (
      <select className="jp-loam-in" aria-label={label} value={value} onChange={event => set(one.name, event.target.value)}>
        <option value="">{usual}</option>
        <option value="true">True</option>
        <option value="false">False</option>
      </select>
    );
  }
  if (!['date', 'datetime'].includes(one.type)) {
    return (
      <Input mono label={label} value={value} placeholder={usual} problem={problem} onChange={next => set(one.name, next)} />
    );
  }
  const kind = value === SCHEDULED_AT ? 'tick' : value === '' ? 'usual' : 'value';
  const example = one.type === 'date' ? '2027-03-25' : '2027-03-25T06:00';
  const choose = (next: string) =>
    set(one.name, next === 'tick' ? SCHEDULED_AT : next === 'usual' ? '' : example);
  return (
    <span className="jp-loam-pair">
      <select className="jp-loam-in" aria-label={label} value={kind} onChange={event => choose(event.target.value)}>
        <option value="usual">{usual}</option>
        <option value="tick">{one.type === 'date' ? trans.__('scheduled day') : trans.__('scheduled time')}</option>
        <option value="value">{trans.__('a fixed one')}</option>
      </select>
      {kind === 'value' ? (
        <Input
          mono
          label={trans.__('%1, fixed', label)}
          value={value}
          problem={problem}
          onChange={next => set(one.name, next)}
        />
      ) : null}
    </span>
  );
}

/** Parameters of a job whose notebook or file declares none that can be read. */
export function FreeParameters(props: {
  params: Draft['params'];
  problems: Problems;
  onChange: (params: Draft['params'], isWrong: boolean) => void;
}): JSX.Element {
  const { trans } = useFace();
  const [text, setText] = React.useState(() =>
    JSON.stringify(Object.fromEntries(Object.entries(props.params).map(([name, value]) => [name, JSON.parse(value) as unknown])), null, 2)
  );
  const change = (next: string) => {
    setText(next);
    try {
      const value: unknown = JSON.parse(next.trim() || '{}');
      if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
        const entries = Object.entries(value).map(([name, inner]) => [name, JSON.stringify(inner)]);
        props.onChange(Object.fromEntries(entries) as Draft['params'], false);
        return;
      }
    } catch {
      // said below
    }
    props.onChange(props.params, true);
  };
  return (
    <Line label={trans.__('Parameters')}>
      <textarea
        className="jp-loam-in mono"
        rows={Math.min(8, text.split('\n').length + 1)}
        spellCheck={false}
        aria-label={trans.__('Parameters, a JSON object')}
        aria-invalid={props.problems.params ? true : undefined}
        value={text}
        onChange={event => change(event.target.value)}
      />
      <div className="jp-loam-says jp-loam-sub">
        {trans.__('The text "loam.scheduled_at" becomes the time of each tick.')}
      </div>
      <Problem text={props.problems.params} />
    </Line>
  );
}
