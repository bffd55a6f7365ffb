import { Logger, type Type } from '@nestjs/common';
import { isLockError, type LockError } from '../../port/lock.errors.js';
import { detached } from '../../async-context/detached.js';
import { breakOffCall, grpcCallOf, type GrpcCall } from '../nest/grpc-call.js';
import { CANCELLED, grpcStatus, type GrpcStatus } from './grpc-status.js';
import { ClientLeftError, publicMessage } from './lock-http.js';

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

  constructor(cause: LockError) {
    const { code = 'INTERNAL_SERVER_ERROR', message } = transportPayload(cause);
    super(message, { cause });
    this.name = 'LockGraphqlError';
    this.extensions = { code };
  }
}

/** The error that a client of a message transport receives: Nest's own shape, with a code. */
interface TransportPayload {
  readonly status: 'error';
  /** Absent for a mistake of the program. */
  readonly code?: string;
  readonly message: string;
}

/** Loads the exception of a transport for `toTransportError`. @returns a promise only for the first message of a transport */
export function prepareTransport(type: string): Promise<unknown> | undefined {
  const load = exceptions.has(type) ? undefined : PACKAGES[type];
  const note = (exception?: Type<Error>): unknown => exceptions.set(type, exception);
  // Without the package the lock error is thrown as it is. The filters handle that, too.
  return load && detached(load).then(note, () => note());
}

/**
 * The exception of the transport for a lock error, with the error as its `cause`: `RpcException`, `WsException`, an error
 * with `extensions.code` for GraphQL. Other errors, and errors on an unknown transport, are returned as they are.
 *
 * @param args the arguments that Nest has for the handler; a call of gRPC among them gets a status of gRPC
 */
export function toTransportError(error: unknown, type: string, args: readonly unknown[]): unknown {
  const Exception = exceptions.get(type);
  if (Exception && error instanceof ClientLeftError && grpcCallOf(args))
    return translate(error, new Exception(CANCELLED));
  if (!publicMessage(error)) return error;
  if (type === 'graphql') return new LockGraphqlError(error as LockError);
  return Exception ? translate(error, new Exception(payloadOf(error as LockError, args))) : error;
}

function translate(cause: unknown, exception: Error): Error {
  translated.add(exception);
  return Object.assign(exception, { cause });
}

/** For filters: matches the exceptions that `toTransportError` has made for messages and gateways. */
export class TranslatedLockError {
  declare readonly cause: LockError;

  static [Symbol.hasInstance](error: unknown): boolean {
    return translated.has(Object(error) as object);
  }
}

/** The error that a client of a message or of a gateway gets; for a call of gRPC among `args`, a status of gRPC. */
export function payloadOf(error: LockError, args: readonly unknown[]): TransportPayload | GrpcStatus {
  const call = grpcCallOf(args);
  return call ? grpcStatus(messageOrLog(error), call) : transportPayload(error);
}

export function transportPayload(error: LockError): TransportPayload {
  return { status: 'error', message: 'Internal server error', ...messageOrLog(error) };
}

/** Logs a mistake of the program, which the client does not learn. */
function messageOrLog(error: LockError): ReturnType<typeof publicMessage> {
  const message = publicMessage(error);
  if (!message) logger.error(error);
  return message;
}

/**
 * Answers a call of `@GrpcStreamCall()` for an error of its lock. Nest would leave the call open and let a promise reject
 * that nothing handles, which ends the process.
 *
 * @throws another error as it is
 */
export function answerCall(call: GrpcCall, error: unknown): void {
  if (error instanceof TranslatedLockError) breakOffCall(call, error);
  else if (isLockError(error)) call.emit('error', payloadOf(error, [call]));
  else throw error;
}
