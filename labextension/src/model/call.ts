/** Calls of the contract: a method and its request in, its answer or a LoamError out. */
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { InvalidFieldSchema } from '../gen/loam/jobs/v1/jobs_pb';

/** An error in the contract's words. */
export class LoamError extends Error {
  constructor(
    readonly code: string,
    message: string,
    /** What was refused, in the contract's words; '' where the server does not say. */
    readonly field = ''
  ) {
    super(message);
  }
}

/** The way to the server: an operation's name and its message, as bytes. */
export type Send = (
  operation: string,
  body: Uint8Array
) => Promise<{ ok: boolean; status: number; body: ArrayBuffer }>;

export type Call = <I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  request?: MessageInitShape<I>
) => Promise<MessageShape<O>>;

/** A caller over some way. What changes something gets a request id, so that a repeat is safe. */
export function caller(send: Send): Call {
  return async (method, request) => {
    const message = create(method.input, request);
    if ('requestId' in message && !message.requestId) {
      Object.assign(message, { requestId: requestId() });
    }
    const reply = await send(method.name, toBinary(method.input, message));
    if (reply.ok) {
      return fromBinary(method.output, new Uint8Array(reply.body));
    }
    throw refusal(reply.status, reply.body);
  };
}

/** What an answer that is no success says. */
export function refusal(status: number, body: ArrayBuffer): LoamError {
  const text = new TextDecoder().decode(body);
  try {
    const said: unknown = JSON.parse(text);
    if (typeof said === 'object' && said !== null && 'message' in said) {
      const code = 'code' in said && typeof said.code === 'string' ? said.code : kind(status);
      return new LoamError(code, String(said.message), 'details' in said ? fieldIn(said.details) : '');
    }
  } catch {
    // not JSON: a proxy's page
  }
  return new LoamError(kind(status), `HTTP ${status}`);
}

/** The field that an error's details name. */
function fieldIn(details: unknown): string {
  for (const one of Array.isArray(details) ? (details as { type?: unknown; value?: unknown }[]) : []) {
    if (one.type === InvalidFieldSchema.typeName && typeof one.value === 'string') {
      return fromBinary(InvalidFieldSchema, Uint8Array.from(atob(one.value), character => character.charCodeAt(0))).field;
    }
  }
  return '';
}

function kind(status: number): string {
  return status === 403 ? 'permission_denied' : status === 404 ? 'not_found' : 'unavailable';
}

/** In order of time: the store keeps answers by it. */
export function requestId(now: number = Date.now()): string {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return `${now.toString(16).padStart(12, '0')}-${random[0].toString(16)}${random[1].toString(16)}`;
}
