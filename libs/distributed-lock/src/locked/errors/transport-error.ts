import { Logger, type Type } from '@nestjs/common';
import type { LockError } from '../../port/lock.errors.js';
import { outside } from '../../async/outside.js';
import { publicMessage } from './lock-http.js';

/** Nest's packages of transports are optional; a call that comes over one of them proves that it is there. */
const PACKAGES: Readonly<Record<string, () => Promise<Type<Error>>>> = {
  rpc: async () => (await import('@nestjs/microservices')).RpcException,
  ws: async () => (await import('@nestjs/websockets')).WsException,
};

const exceptions = new Map<string, Type<Error> | undefined>();
const translated = new WeakSet<object>();
const logger = new Logger('DistributedLock');

/** What a GraphQL client may read of a lock error; the code is where GraphQL's own errors have it. */
export class LockGraphqlError extends Error {
  readonly extensions: { readonly code: string };

  constructor({ code = 'INTERNAL_SERVER_ERROR', message }: TransportPayload, cause: unknown) {
    super(message, { cause });
    this.name = 'LockGraphqlError';
    this.extensions = { code };
  }
}

/** What a client of a message transport receives; the shape of Nest's own errors, with a code. */
export interface TransportPayload {
  readonly status: 'error';
  /** Absent for a mistake of the program. */
  readonly code?: string;
  readonly message: string;
}

/** Makes `toTransportError` ready for a transport. What it gives is to be awaited before the first error can come. */
export function prepareTransport(type: string): Promise<unknown> | undefined {
  const load = exceptions.has(type) ? undefined : PACKAGES[type];
  // A package that our own path does not lead to costs its class alone: the filters still know the error.
  return (
    load &&
    outside(load).then(
      (exception) => exceptions.set(type, exception),
      () => exceptions.set(type, undefined),
    )
  );
}

/**
 * The exception of the transport that tells its client of a lock error, with the error as its `cause`: `RpcException`,
 * `WsException`, an error with `extensions.code` for GraphQL.
 *
 * Whatever else is given, and every error on an unknown transport, comes back as it is.
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

/** For filters: matches the exceptions of messages and gateways that `toTransportError` has made, and no others. */
export class TranslatedLockError {
  declare readonly cause: LockError;

  static [Symbol.hasInstance](error: unknown): boolean {
    return translated.has(Object(error) as object);
  }
}

/** What to tell any client of a lock error. A mistake of the program goes into its log instead. */
export function transportPayload(error: LockError): TransportPayload {
  const message = publicMessage(error);
  if (!message) logger.error(error);
  return { status: 'error', message: 'Internal server error', ...message };
}
