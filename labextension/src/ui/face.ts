/** What a view needs of its surroundings, so that it needs no JupyterLab itself. */
import * as React from 'react';
import type { Files } from '../model/opened';
import type { Loam } from '../model/loam';
import type { Trans } from '../model/words';
import type { DeadFilterInit } from './ask';

/** What a user can do with schedules and what their runs left. */
export interface ScheduleActions extends Files {
  kernels(): string[];
  openSchedule(id: string): void;
  editSchedule(id: string): void;
  setSchedulePaused(id: string, paused: boolean): Promise<void>;
  trigger(id: string): Promise<void>;
  backfill(id: string): Promise<void>;
  cancelBackfill(id: string): Promise<void>;
  removeSchedule(id: string): Promise<void>;
  showRunsOf(id: string, name: string): void;
  /** The executed notebook of a run, at a cell; without one, at the cell that failed. */
  openExecuted(id: string, cell?: number): void;
}

/** What a user can do. Each asks first where its label ends with "…"; errors become notifications. */
export interface Actions extends ScheduleActions {
  open(id: string): void;
  openTable(name: string): void;
  cancel(ids: string[]): Promise<void>;
  retry(id: string): Promise<void>;
  retryWith(id: string): Promise<void>;
  redrive(which: DeadFilterInit): Promise<void>;
  dismiss(which: DeadFilterInit): Promise<void>;
  remove(id: string): Promise<void>;
  setPaused(queue: string, paused: boolean): Promise<void>;
  startServer(): Promise<void>;
  newRun(): void;
  sampleNotebook(): void;
  copyLink(id: string): void;
  copy(text: string): void;
}

export interface Face {
  loam: Loam;
  trans: Trans;
  actions: Actions;
  /** Whether the view is on screen: what is not reads nothing. */
  isShown: () => boolean;
}

export const FaceContext = React.createContext<Face | null>(null);

export function useFace(): Face {
  const face = React.useContext(FaceContext);
  if (!face) {
    throw new Error('a view of Loam stands outside its context');
  }
  return face;
}
