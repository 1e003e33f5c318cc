/** Widgets of schedules in the main area. */
import * as React from 'react';
import { loamIcon } from './icons';
import type { Face } from './ui/face';
import type { FormOf } from './ui/schedule/form';
import { later } from './ui/later';
import { FaceWidget } from './widgets';

const ScheduleForm = later(async () => (await import('./ui/schedule/form')).ScheduleForm);
const SchedulePage = later(async () => (await import('./ui/schedule/page')).SchedulePage);

export class ScheduleWidget extends FaceWidget {
  constructor(
    face: Omit<Face, 'isShown'>,
    readonly scheduleId: string
  ) {
    super(face);
    this.addClass('jp-loam-main');
    this.title.icon = loamIcon;
    this.title.label = face.trans.__('Schedule');
  }

  private readonly _name = (name: string): void => {
    this.title.label = name.length > 40 ? `${name.slice(0, 39)}…` : name;
    this.title.caption = `${name}\n${this.scheduleId}`;
  };

  protected view(): JSX.Element {
    return <SchedulePage id={this.scheduleId} onName={this._name} />;
  }
}

export class ScheduleFormWidget extends FaceWidget {
  constructor(
    face: Omit<Face, 'isShown'>,
    private readonly _of: FormOf,
    private readonly _end: (id: string) => void
  ) {
    super(face);
    this.addClass('jp-loam-main');
    this.title.icon = loamIcon;
    const name = _of.path.split('/').pop() ?? '';
    this.title.label = _of.path ? face.trans.__('Schedule %1', name) : face.trans.__('Edit schedule');
    this.title.caption = _of.path;
  }

  /** What it is the form of: there is one form for each. */
  get key(): string {
    return this._of.scheduleId || this._of.path;
  }

  protected view(): JSX.Element {
    return <ScheduleForm of={this._of} onDone={this._end} onCancel={() => this._end('')} />;
  }
}
