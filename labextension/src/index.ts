/** Durable runs in JupyterLab: the plugins, in the order of what they need. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { commandsPlugin } from './plugins/commands';
import { core } from './plugins/core';
import { notices } from './plugins/notices';
import { renderers } from './plugins/renderers';
import { executed } from './plugins/executed';
import { running } from './plugins/running';
import { schedules } from './plugins/schedules';
import { status } from './plugins/status';
import { views } from './plugins/views';

export { ILoam } from './tokens';

const plugins: JupyterFrontEndPlugin<unknown>[] = [core, views, commandsPlugin, schedules, executed, renderers, running, status, notices];
export default plugins;
