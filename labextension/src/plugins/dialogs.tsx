/** What is asked before something happens. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { Trans } from '../model/words';

/** Ask a question with consequences; the safe answer has the focus. What cannot be taken back is red. */
export async function confirm(trans: Trans, title: string, body: string, label: string, isFinal = true): Promise<boolean> {
  const button = isFinal ? Dialog.warnButton({ label }) : Dialog.okButton({ label });
  const answer = await showDialog({
    title,
    body,
    buttons: [Dialog.cancelButton({ label: trans.__('Back') }), button],
    defaultButton: 0
  });
  return answer.button.accept;
}

export interface JobForm extends Record<string, string> {
  name: string;
  queue: string;
  tags: string;
  params: string;
  retries: string;
  timeoutS: string;
}

/** A form as it is before anything is typed. */
export function jobForm(name: string, params: unknown): JobForm {
  return { name, queue: 'default', tags: '', params: JSON.stringify(params ?? {}, null, 2), retries: '0', timeoutS: '0' };
}

export interface AskedField {
  label: string;
  kind?: 'text' | 'lines' | 'datetime-local';
}

/** A form of labelled fields; answers with what was typed, or null. `check` says what is wrong, before it is sent. */
export async function ask<T extends Record<string, string>>(
  trans: Trans,
  title: string,
  given: T,
  fields: Partial<Record<keyof T & string, AskedField>>,
  check: (form: T) => string
): Promise<T | null> {
  let form = given;
  let problem = '';
  for (;;) {
    const answer = await showDialog({
      title,
      body: new FormWidget<T>(form, fields, problem),
      buttons: [Dialog.cancelButton({ label: trans.__('Back') }), Dialog.okButton({ label: trans.__('Submit') })],
      focusNodeSelector: 'input, textarea'
    });
    if (!answer.button.accept) {
      return null;
    }
    form = answer.value ?? form;
    problem = check(form);
    if (!problem) {
      return form;
    }
  }
}

/** The fields of a run that are asked for. */
export function askJob(
  trans: Trans,
  title: string,
  given: JobForm,
  fields: readonly (keyof JobForm)[],
  check: (form: JobForm) => string
): Promise<JobForm | null> {
  const all: Record<keyof JobForm, AskedField> = {
    name: { label: trans.__('Name') },
    queue: { label: trans.__('Queue') },
    tags: { label: trans.__('Tags, separated by spaces') },
    params: { label: trans.__('Parameters, a JSON object'), kind: 'lines' },
    retries: { label: trans.__('Retries after an error') },
    timeoutS: { label: trans.__('Time limit in seconds, 0: none') }
  };
  return ask(trans, title, given, Object.fromEntries(fields.map(name => [name, all[name]])), check);
}

class FormWidget<T extends Record<string, string>> extends ReactWidget implements Dialog.IBodyWidget<T> {
  private _form: T;

  constructor(
    given: T,
    private readonly _fields: Partial<Record<keyof T & string, AskedField>>,
    private readonly _problem: string
  ) {
    super();
    this._form = { ...given };
    this.addClass('jp-loam');
    this.addClass('jp-loam-jobform');
  }

  getValue(): T {
    return this._form;
  }

  protected render(): JSX.Element {
    const set = (name: string) => (event: React.ChangeEvent<HTMLInputElement | HTMLTextAreaElement>) => {
      this._form = { ...this._form, [name]: event.target.value };
    };
    return (
      <>
        {this._problem ? (
          <div className="jp-loam-notice bad" role="alert">
            {this._problem}
          </div>
        ) : null}
        {Object.entries<AskedField | undefined>(this._fields).map(([name, field]) => (
          <label key={name}>
            <span>{field?.label}</span>
            {field?.kind === 'lines' ? (
              <textarea
                className="jp-loam-in mono"
                rows={Math.min(12, Math.max(3, (this._form[name] ?? '').split('\n').length))}
                spellCheck={false}
                defaultValue={this._form[name]}
                onChange={set(name)}
              />
            ) : (
              <input className="jp-loam-in" type={field?.kind} defaultValue={this._form[name]} onChange={set(name)} />
            )}
          </label>
        ))}
      </>
    );
  }
}

/** What is wrong with a form, in words; '' where nothing is. */
export function problemOf(form: JobForm, trans: Trans): string {
  if (!form.name.trim()) {
    return trans.__('A name is wanted.');
  }
  if (!/^\d+$/.test(form.retries) || Number(form.retries) > 999) {
    return trans.__('Retries: a whole number from 0 to 999 is wanted.');
  }
  if (!(Number(form.timeoutS) >= 0)) {
    return trans.__('Time limit: a number of seconds is wanted.');
  }
  return paramsOf(form.params) === null ? trans.__('Parameters: a JSON object is wanted, as in {"day": "2027-03-25"}.') : '';
}

export function paramsOf(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text.trim() || '{}');
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}
