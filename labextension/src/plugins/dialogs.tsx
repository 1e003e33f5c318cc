/** What is asked before something happens. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { Trans } from '../model/words';

/** Ask a question with consequences; the safe answer has the focus. */
export async function confirm(trans: Trans, title: string, body: string, label: string): Promise<boolean> {
  const answer = await showDialog({
    title,
    body,
    buttons: [Dialog.cancelButton({ label: trans.__('Back') }), Dialog.warnButton({ label })],
    defaultButton: 0
  });
  return answer.button.accept;
}

export interface JobForm {
  name: string;
  queue: string;
  tags: string;
  params: string;
  retries: string;
  timeoutS: string;
}

/** A form of labelled fields; answers with what was typed, or null. `check` says what is wrong, before it is sent. */
export async function askJob(
  trans: Trans,
  title: string,
  given: JobForm,
  fields: readonly (keyof JobForm)[],
  check: (form: JobForm) => string
): Promise<JobForm | null> {
  let form = given;
  let problem = '';
  for (;;) {
    const body = new FormWidget(trans, form, fields, problem);
    const answer = await showDialog({
      title,
      body,
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

class FormWidget extends ReactWidget implements Dialog.IBodyWidget<JobForm> {
  private _form: JobForm;

  constructor(
    private readonly _trans: Trans,
    given: JobForm,
    private readonly _fields: readonly (keyof JobForm)[],
    private readonly _problem: string
  ) {
    super();
    this._form = { ...given };
    this.addClass('jp-loam');
    this.addClass('jp-loam-jobform');
  }

  getValue(): JobForm {
    return this._form;
  }

  protected render(): JSX.Element {
    const labels: Record<keyof JobForm, string> = {
      name: this._trans.__('Name'),
      queue: this._trans.__('Queue'),
      tags: this._trans.__('Tags, separated by spaces'),
      params: this._trans.__('Parameters, a JSON object'),
      retries: this._trans.__('Retries after an error'),
      timeoutS: this._trans.__('Time limit in seconds, 0: none')
    };
    return (
      <>
        {this._problem ? (
          <div className="jp-loam-notice bad" role="alert">
            {this._problem}
          </div>
        ) : null}
        {this._fields.map(field => (
          <label key={field}>
            <span>{labels[field]}</span>
            {field === 'params' ? (
              <textarea
                className="jp-loam-in mono"
                rows={6}
                spellCheck={false}
                defaultValue={this._form[field]}
                onChange={event => (this._form = { ...this._form, [field]: event.target.value })}
              />
            ) : (
              <input
                className="jp-loam-in"
                defaultValue={this._form[field]}
                onChange={event => (this._form = { ...this._form, [field]: event.target.value })}
              />
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
