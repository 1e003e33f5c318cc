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
  startServer: 'loam:start-server',
  fromUrl: 'loam:open-from-url'
} as const;
