/** The filter of the runs: text, state, and (opened) engine, queue, tag, whose. */
import * as React from 'react';
import type { CountsResponse } from '../gen/loam/jobs/v1/service_pb';
import type { Filter, StateFilter } from '../model/filter';
import { EVERYTHING, isEmpty } from '../model/filter';
import { GLYPH } from '../model/state';
import { count } from '../model/words';
import { Button, Icon, Search, Text, useSignal, wordIn } from './bits';
import { useFace } from './face';

const CHIPS: readonly [StateFilter, (counts: CountsResponse) => bigint][] = [
  ['running', counts => counts.running],
  ['queued', counts => counts.queued],
  ['retrying', counts => counts.retrying],
  ['scheduled', counts => counts.scheduled],
  ['failed', counts => counts.failed],
  ['dead letter', counts => counts.deadLetters]
];

export function FilterBar(): JSX.Element {
  const { loam, trans, actions } = useFace();
  useSignal(loam.changed, change => change !== 'active');
  const [filter, setFilter] = React.useState<Filter>(loam.runs.filter);
  // Another part of the page may set it: the runs of a schedule.
  React.useEffect(() => setFilter(loam.runs.filter), [loam, loam.runs.filter.schedule]);
  const [isOpen, setOpen] = React.useState(false);
  const timer = React.useRef<ReturnType<typeof setTimeout>>();
  const change = (part: Partial<Filter>, waitMs = 0) => {
    const next = { ...filter, ...part };
    setFilter(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void loam.setFilter(next), waitMs);
  };
  const field = (name: 'engine' | 'queue' | 'tag', label: string) => (
    <label key={name}>
      <span>{label}</span>
      <input
        className="jp-loam-in"
        value={filter[name]}
        onChange={event => change({ [name]: event.target.value.trim() }, 250)}
      />
    </label>
  );
  const counts = loam.counts;
  return (
    <>
      <div className="jp-loam-filter">
        <span className="jp-loam-search">
          <Icon name="search" />
          <Search
            label={trans.__('Filter runs by name')}
            placeholder={trans.__('Filter runs')}
            value={filter.text}
            onChange={text => change({ text }, 150)}
          />
        </span>
        <Button
          kind="icon"
          icon="filter"
          label={trans.__('Filter by engine, queue, tag, person')}
          expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        />
        {loam.canWrite ? (
          <Button kind="icon" icon="plus" label={trans.__('Submit a run…')} onClick={() => actions.newRun()} />
        ) : null}
      </div>
      {isOpen ? (
        <div className="jp-loam-more">
          {field('engine', trans.__('Engine'))}
          {field('queue', trans.__('Queue'))}
          {field('tag', trans.__('Tag'))}
          <label className="check">
            <input
              type="checkbox"
              checked={filter.actor !== ''}
              onChange={event => change({ actor: event.target.checked ? loam.actor : '' })}
            />
            <span>{loam.actor ? trans.__('Only mine (%1)', loam.actor) : trans.__('Only mine')}</span>
          </label>
          {isEmpty(filter) ? null : (
            <Button kind="small quiet" label={trans.__('Clear the filter')} onClick={() => change(EVERYTHING)} />
          )}
        </div>
      ) : null}
      {filter.schedule ? (
        <div className="jp-loam-ofschedule">
          <Icon name="filter" />
          <span className="jp-loam-cut">
            {trans.__('Runs of')} <Text value={filter.scheduleName} most={80} />
          </span>
          <Button kind="small quiet" label={trans.__('Show all')} onClick={() => change({ schedule: '', scheduleName: '' })} />
        </div>
      ) : null}
      <div className="jp-loam-chips" role="toolbar" aria-label={trans.__('Filter by state')}>
        {CHIPS.map(([state, of]) => {
          const many = counts ? of(counts) : 0n;
          const isPressed = filter.state === state;
          if (!many && !isPressed) {
            return null;
          }
          const said = `${count(many)} ${wordIn(trans, state)}${state === 'failed' ? trans.__(' within 24 hours') : ''}`;
          return (
            <button
              key={state}
              type="button"
              className={`jp-loam-chip jp-loam-st ${GLYPH[state]}`}
              aria-pressed={isPressed}
              aria-label={trans.__('%1: show only these', said)}
              title={said}
              onClick={() => change({ state: isPressed ? '' : state })}
            >
              {count(many)}
            </button>
          );
        })}
      </div>
    </>
  );
}
