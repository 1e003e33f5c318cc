/** The way to our routes on the Jupyter server: its token, its prefix, its XSRF cookie. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { Send } from './model/call';
import { LoamError, refusal } from './model/call';

export function sender(settings: ServerConnection.ISettings): Send {
  return async (operation, body) => {
    const reply = await request(settings, ['call', operation], {
      method: 'POST',
      headers: { 'Content-Type': 'application/proto' },
      // A copy of its own: the message may be a part of a larger buffer.
      body: body.slice().buffer as ArrayBuffer
    });
    return { ok: reply.ok, status: reply.status, body: await reply.arrayBuffer() };
  };
}

/** The address of the events after a cursor. The token is in it only where the server wants it there. */
export function eventsUrl(settings: ServerConnection.ISettings, since: string): string {
  const query = new URLSearchParams(since ? { since } : {});
  if (settings.appendToken && settings.token) {
    query.set('token', settings.token);
  }
  return `${URLExt.join(settings.wsUrl, 'loam', 'events')}?${query}`;
}

/** What a file would be as a job: a JobSpec, in bytes. */
export async function jobOf(settings: ServerConnection.ISettings, path: string): Promise<Uint8Array> {
  const query = URLExt.objectToQueryString({ path });
  return new Uint8Array(await whole(await request(settings, ['job', query], { method: 'GET' })));
}

/** Have the loam server looked for, and the embedded one started. */
export async function startServer(settings: ServerConnection.ISettings): Promise<void> {
  await whole(await request(settings, ['start'], { method: 'POST' }));
}

/** Whether the user may change runs here; the server refuses it in any case. */
export async function mayWrite(settings: ServerConnection.ISettings): Promise<boolean> {
  const query = URLExt.objectToQueryString({ permissions: JSON.stringify({ loam: ['read', 'write'] }) });
  const reply = await ServerConnection.makeRequest(URLExt.join(settings.baseUrl, 'api', `me${query}`), {}, settings);
  const me = (await reply.json()) as { permissions?: { loam?: string[] } };
  return me.permissions?.loam?.includes('write') ?? false;
}

async function request(settings: ServerConnection.ISettings, path: string[], init: RequestInit): Promise<Response> {
  const [first, second = ''] = path;
  const end = second.startsWith('?') ? `${first}${second}` : URLExt.join(first, second);
  try {
    return await ServerConnection.makeRequest(URLExt.join(settings.baseUrl, 'loam', end), init, settings);
  } catch (error) {
    throw new LoamError('unavailable', error instanceof Error ? error.message : String(error));
  }
}

async function whole(reply: Response): Promise<ArrayBuffer> {
  const body = await reply.arrayBuffer();
  if (!reply.ok) {
    throw refusal(reply.status, body);
  }
  return body;
}
