import { Logger, type Type } from '@nestjs/common';
import { detached } from '../async-context/detached.js';
import { type LockErrorCode, isLockError, type LockError } from '../port/lock.errors.js';
import { type GrpcCall, breakOffCall, grpcCallOf } from './answers.js';
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
    // Nobody receives it.
    return translate(
      error,
      new Exception({ status: 'error', code: GRPC.cancelled, message: 'The client has left.' }),
    );
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
export function payloadOf(error: LockError, args: readonly unknown[]): object {
  const call = grpcCallOf(args);
  return call ? grpcStatus(messageOrLog(error), call) : transportPayload(error);
}

/** Nest's own shape of an error, with a code unless it is a mistake of the program. */
export function transportPayload(error: LockError) {
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

/** Names and numbers of https://grpc.io/docs/guides/status-codes/. */
const GRPC = { cancelled: 1, unknown: 2, invalidArgument: 3, aborted: 10, internal: 13, unavailable: 14 };

const STATUS: Partial<Record<LockErrorCode, number>> = {
  LOCK_WAIT_TIMEOUT: GRPC.aborted,
  LOCK_STORE: GRPC.unavailable,
  LOCK_SHUTDOWN: GRPC.unavailable,
  LOCK_KEY: GRPC.invalidArgument,
  // Clients repeat a call with `aborted` or `unavailable` by themselves. The work of this call may have been done.
  LOCK_LOST: GRPC.unknown,
};

/** A status with the code of the lock error as `lock-code`. For a mistake of the program it tells nothing. */
function grpcStatus(message: ReturnType<typeof publicMessage>, call: GrpcCall): object {
  if (!message) return { status: 'error', code: GRPC.internal, message: 'Internal server error' };
  const { code } = message;
  // The class comes from the call, because the server may use another copy of the package.
  const Metadata = call.metadata.constructor as new () => { set(name: string, value: string): void };
  const metadata = new Metadata();
  metadata.set('lock-code', code);
  return { status: 'error', code: STATUS[code] ?? GRPC.internal, message: message.message, metadata };
}
