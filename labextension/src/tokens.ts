/** What our plugins share, and other extensions may use. */
import { Token } from '@lumino/coreutils';
import type { Loam } from './model/loam';
import type { Face } from './ui/face';

export interface ILoam {
  /** Runs, counts and events of the loam server. */
  readonly loam: Loam;
  /** What views are made with. */
  readonly face: Omit<Face, 'isShown'>;
}

export const ILoam = new Token<ILoam>('loam-lab:ILoam', 'Durable runs: the list, one run, and what a user can do.');

/** Names of commands. */
export const COMMANDS = {
  openRun: 'loam:open-run',
  openTable: 'loam:open-table',
  show: 'loam:show-runs',
  cancel: 'loam:cancel-run',
  retry: 'loam:retry-run',
  retryWith: 'loam:retry-run-with',
  redrive: 'loam:redrive-run',
  remove: 'loam:delete-run',
  copyLink: 'loam:copy-link',
  runAsJob: 'loam:run-as-job',
  schedule: 'loam:schedule',
  scheduleNotebook: 'loam:schedule-notebook',
  openSchedule: 'loam:open-schedule',
  editSchedule: 'loam:edit-schedule',
  triggerSchedule: 'loam:trigger-schedule',
  pauseSchedule: 'loam:pause-schedule',
  resumeSchedule: 'loam:resume-schedule',
  backfillSchedule: 'loam:backfill-schedule',
  removeSchedule: 'loam:delete-schedule',
  openExecuted: 'loam:open-executed',
  startServer: 'loam:start-server',
  fromUrl: 'loam:open-from-url'
} as const;
