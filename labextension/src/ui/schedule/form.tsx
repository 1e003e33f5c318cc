/** The form of a schedule, new or not. When exactly does it fire, and what if? */
import * as React from 'react';
import type { Schedule } from '../../gen/loam/jobs/v1/schedules_pb';
import { Jobs } from '../../gen/loam/jobs/v1/service_pb';
import { LoamError } from '../../model/call';
import type { Draft, Problems, Source } from '../../model/draft';
import { belowRoot, fieldOf, requestOf } from '../../model/draft';
import { matrixOf, usual } from '../../model/matrix';
import type { Opened } from '../../model/opened';
import { openNew, openOld, sourceFor } from '../../model/opened';
import { Banner } from '../banner';
import { Button, Text, useSignal } from '../bits';
import { useFace } from '../face';
import { useRead } from '../section';
import { Closed } from './closed';
import { Input, Line, Problem, Segments } from './fields';
import { Fires, usePreview } from './fires';
import { Limits, Told } from './limits';
import { FreeParameters, Parameters } from './parameters';
import { Missed, Overlap } from './policies';
import { WhenLines } from './when';

export interface FormOf {
  /** A file, as the file browser names it; '' with a schedule. */
  path: string;
  scheduleId: string;
}

export function ScheduleForm(props: { of: FormOf; onDone: (id: string) => void; onCancel: () => void }): JSX.Element {
  const { of } = props;
  const { loam, trans, actions } = useFace();
  const { value, error } = useRead(
    () => (of.scheduleId ? openOld(loam.call, of.scheduleId, actions) : openNew(loam.call, of.path, actions)),
    `${of.path}/${of.scheduleId}`
  );
  if (!value) {
    return (
      <article className="jp-loam-page">
        <Banner />
        {error ? (
          <div className="jp-loam-notice bad" role="alert">
            <Text value={error} most={1_000} />
          </div>
        ) : (
          <p role="status">{trans.__('Reading the file…')}</p>
        )}
      </article>
    );
  }
  return <Form key={value.schedule?.id ?? of.path} opened={value} {...props} />;
}

function Form(props: { opened: Opened; of: FormOf; onDone: (id: string) => void; onCancel: () => void }): JSX.Element {
  const { opened } = props;
  const { loam, trans, actions } = useFace();
  useSignal(loam.changed, change => change === 'rights' || change === 'server');
  const [draft, setDraft] = React.useState<Draft>(opened.draft);
  const [problems, setProblems] = React.useState<Problems>({});
  const [failed, setFailed] = React.useState('');
  const [isSending, setSending] = React.useState(false);
  const form = React.useRef<HTMLFormElement>(null);
  const prefix = React.useId();
  const preview = usePreview(draft);
  const change = (part: Partial<Draft>) => {
    setDraft(old => ({ ...old, ...part }));
    // What is typed anew is not wrong any more, as far as is known.
    setProblems(old => Object.fromEntries(Object.entries(old).filter(([name]) => !(name in part) && !name.startsWith('param'))));
    setFailed('');
  };
  const past = useRead(
    async () =>
      opened.schedule ? (await loam.call(Jobs.method.listTicks, { scheduleId: opened.schedule.id, limit: 30 })).ticks : [],
    opened.schedule?.id ?? ''
  );
  const runs = React.useMemo(() => {
    const matrix = matrixOf(past.value ?? [], Date.now());
    return usual(matrix, matrix.rows[0], matrix.columns.length);
  }, [past.value]);
  const file = opened.job.task?.name ?? '';
  const what = opened.schedule ? trans.__('Edit %1', opened.schedule.name) : trans.__('Schedule %1', file);

  const show = (found: Problems) => {
    setProblems(found);
    setTimeout(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());
  };
  const send = async () => {
    setFailed('');
    const { request, problems: found } = requestOf(draft, opened.job, opened.parameters);
    const all = { ...found, ...(problems.params === 'json' ? { params: 'json' } : {}) };
    if (Object.keys(all).length) {
      show(all);
      return;
    }
    setSending(true);
    try {
      const job = await sourceFor(request.job, draft.source, opened, actions, trans);
      const answer = opened.schedule
        ? await loam.call(Jobs.method.editSchedule, { ...request, job, scheduleId: opened.schedule.id })
        : await loam.call(Jobs.method.createSchedule, { ...request, job });
      props.onDone(answer.schedule?.id ?? '');
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const names = opened.parameters.map(one => one.name);
      const field = error instanceof LoamError ? fieldOf(error.field, names) : '';
      setFailed(message);
      if (field) {
        show({ [field]: message });
      }
    } finally {
      setSending(false);
    }
  };
  return (
    <form
      ref={form}
      className="jp-loam-page"
      aria-labelledby={`${prefix}title`}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        void send();
      }}
    >
      <Banner />
      <header className="jp-loam-title">
        <h1 id={`${prefix}title`}>
          <Text value={what} most={300} />
        </h1>
        <div className="jp-loam-acts">
          <button type="submit" className="jp-loam-btn go" disabled={isSending || loam.canWrite === false}>
            {opened.schedule ? trans.__('Save') : trans.__('Create schedule')}
          </button>
          <Button label={trans.__('Cancel')} onClick={props.onCancel} />
        </div>
      </header>
      <Facts opened={opened} />
      {failed ? (
        <div className="jp-loam-notice bad" role="alert">
          <span>
            {opened.schedule ? trans.__('Not saved:') : trans.__('Not created:')} <Text value={failed} most={1_000} />
          </span>
        </div>
      ) : null}
      <div className="jp-loam-formtwo">
        <div className="jp-loam-form">
          <Line label={trans.__('Name')} htmlFor={`${prefix}name`}>
            <Input id={`${prefix}name`} value={draft.name} problem={problems.name} onChange={name => change({ name })} />
            <Problem text={problems.name} />
            <Others file={file} but={opened.schedule?.id ?? ''} />
          </Line>
          <SourceLine opened={opened} draft={draft} change={change} />
          {opened.isDeclared ? (
            <Parameters
              params={draft.params}
              parameters={opened.parameters}
              problems={problems}
              onChange={params => change({ params })}
            />
          ) : (
            <FreeParameters
              params={draft.params}
              problems={problems}
              onChange={(params, isWrong) => {
                change({ params });
                if (isWrong) {
                  setProblems(old => ({ ...old, params: 'json' }));
                }
              }}
            />
          )}
          {opened.isNotebook ? (
            <Line label={trans.__('Kernel')} htmlFor={`${prefix}kernel`}>
              <select
                id={`${prefix}kernel`}
                className="jp-loam-in"
                value={draft.kernel}
                aria-invalid={problems.kernel ? true : undefined}
                onChange={event => change({ kernel: event.target.value })}
              >
                {[...new Set([draft.kernel, ...actions.kernels()])].map(name => (
                  <option key={name} value={name}>
                    {name}
                  </option>
                ))}
              </select>
              <Problem text={problems.kernel} />
            </Line>
          ) : null}
          <WhenLines draft={draft} change={change} problems={problems} preview={preview} />
          <Missed draft={draft} change={change} problems={problems} fires={preview.fires} usual={runs} />
          <Overlap draft={draft} change={change} problems={problems} fires={preview.fires} usual={runs} />
          <Limits draft={draft} change={change} problems={problems} isNotebook={opened.isNotebook} />
          <Told draft={draft} change={change} problems={problems} />
        </div>
        <aside aria-live="polite" aria-label={trans.__('Next fires')}>
          <Fires fires={preview.fires} zone={draft.zone} isOld={preview.isAsking || preview.error !== ''} />
          <div className="jp-loam-notice dim">
            <span className="jp-loam-st jp-loam-ok" aria-hidden="true" />
            <span>
              <Closed />
            </span>
          </div>
        </aside>
      </div>
    </form>
  );
}

function Facts({ opened }: { opened: Opened }): JSX.Element {
  const { trans } = useFace();
  const many = opened.parameters.length;
  const facts = [
    opened.kernel ? trans.__('kernel %1', opened.kernel) : '',
    opened.isDeclared ? trans._n('%1 parameter', '%1 parameters', many, String(many)) : '',
    opened.cwd ? trans.__('runs in %1', opened.cwd) : ''
  ].filter(Boolean);
  return (
    <div className="jp-loam-facts">
      {facts.map(fact => (
        <span key={fact}>
          <Text value={fact} most={200} />
        </span>
      ))}
    </div>
  );
}

function SourceLine(props: { opened: Opened; draft: Draft; change: (part: Partial<Draft>) => void }): JSX.Element | null {
  const { opened, draft } = props;
  const { trans, actions } = useFace();
  if (!opened.path) {
    return null;
  }
  const hash = (opened.schedule?.sourceSha256 || opened.sha256).slice(0, 8);
  const isReachable = !opened.schedule || belowRoot(opened.path, actions.rootUri) !== null;
  const choices: { value: Source; label: string }[] = [];
  if (opened.schedule && !opened.schedule.followsFile) {
    choices.push({ value: 'kept', label: trans.__('This copy, %1', hash) });
  }
  if (isReachable) {
    choices.push({ value: 'fresh', label: opened.schedule ? trans.__('Copy it anew') : trans.__('This copy, %1', hash) });
  }
  choices.push({ value: 'latest', label: trans.__('Latest file') });
  const means: Record<Source, string> = {
    kept: trans.__('Runs this copy until you choose another.'),
    fresh: opened.schedule
      ? trans.__('Runs a copy of the file as it is when you save this.')
      : trans.__('Runs this copy until you choose another.'),
    latest: trans.__('Each run takes the file as it is then.')
  };
  return (
    <Line label={trans.__('Runs')}>
      <Segments label={trans.__('Source')} value={draft.source} choices={choices} onChange={source => props.change({ source })} />
      <div className="jp-loam-says jp-loam-sub">{means[draft.source]}</div>
    </Line>
  );
}

/** Other schedules of a file with this name. */
function Others(props: { file: string; but: string }): JSX.Element | null {
  const { loam, trans, actions } = useFace();
  const { value } = useRead(() => loam.call(Jobs.method.listSchedules, { limit: 1_000 }), props.file);
  const others = (value?.schedules ?? []).filter(
    (one: Schedule) => one.id !== props.but && props.file !== '' && one.job?.task?.name === props.file
  );
  if (!others.length) {
    return null;
  }
  return (
    <div className="jp-loam-says jp-loam-sub">
      {trans.__('Also scheduled, a file of this name:')}{' '}
      {others.slice(0, 3).map(one => (
        <React.Fragment key={one.id}>
          <button type="button" className="jp-loam-link" onClick={() => actions.openSchedule(one.id)}>
            <Text value={one.name} most={80} />
          </button>{' '}
        </React.Fragment>
      ))}
    </div>
  );
}
