/** The sections of the sidebar, in order. A new one is a file here and a word in this list. */
import type { Section } from '../section';
import { dead } from './dead';
import { engines } from './engines';
import { queues } from './queues';
import { schedules } from './schedules';
import { tables } from './tables';

export const SECTIONS: readonly Section[] = [queues, schedules, dead, tables, engines];
