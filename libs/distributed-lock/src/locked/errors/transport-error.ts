import { Logger, type Type } from '@nestjs/common';
import type { LockError } from '../../port/lock.errors.js';
import { outside } from '../../async/outside.js';
import { publicMessage } from './lock-http.js';

/** Nest's packages of transports are optional. A call over a transport proves that its package is installed. */
const PACKAGES: Readonly<Record<string, () => Promise<Type<Error>>>> = {
  rpc: async () => (await import('@nestjs/microservices')).RpcException,
  ws: async () => (await import('@nestjs/websockets')).WsException,
};

const exceptions = new Map<string, Type<Error> | undefined>();
const translated = new WeakSet<object>();
const logger = new Logger('DistributedLock');

/** A lock error for a client of GraphQL, with the code where GraphQL's own errors have it. */
export class LockGraphqlError extends Error {
  readonly extensions: { readonly code: string };

  constructor({ code = 'INTERNAL_SERVER_ERROR', message }: TransportPayload, cause: unknown) {
    super(message, { cause });
    this.name = 'LockGraphqlError';
    this.extensions = { code };
  }
}

/** The error that a client of a message transport receives: Nest's own shape, with a code. */
export interface TransportPayload {
  readonly status: 'error';
  /** Absent for a mistake of the program. */
  readonly code?: string;
  readonly message: string;
}

/** Loads the exception of a transport for `toTransportError`. */
export async function prepareTransport(type: string): Promise<void> {
  const load = exceptions.has(type) ? undefined : PACKAGES[type];
  // Without the package the error is thrown as it is, which the filters know too.
  if (load) exceptions.set(type, await outside(load).catch(() => undefined));
}

/**
 * The exception of the transport for a lock error, with the error as its `cause`: `RpcException`, `WsException`, an error
 * with `extensions.code` for GraphQL. Other errors, and errors on an unknown transport, are returned as they are.
 */
export function toTransportError(error: unknown, type: string): unknown {
  const message = publicMessage(error);
  if (!message) return error;
  const payload: TransportPayload = { status: 'error', ...message };
  if (type === 'graphql') return new LockGraphqlError(payload, error);
  const Exception = exceptions.get(type);
  if (!Exception) return error;
  const exception = Object.assign(new Exception(payload), { cause: error });
  translated.add(exception);
  return exception;
}

/** For filters: matches the exceptions that `toTransportError` has made for messages and gateways. */
export class TranslatedLockError {
  declare readonly cause: LockError;

  static [Symbol.hasInstance](error: unknown): boolean {
    return translated.has(Object(error) as object);
  }
}

/** The message for a client. Logs a mistake of the program, which the client does not learn. */
export function transportPayload(error: LockError): TransportPayload {
  const message = publicMessage(error);
  if (!message) logger.error(error);
  return { status: 'error', message: 'Internal server error', ...message };
}
