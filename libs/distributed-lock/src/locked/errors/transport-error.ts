import { Logger, type Type } from '@nestjs/common';
import { isLockError, type LockError } from '../../port/lock.errors.js';
import { detached } from '../../async-context/detached.js';
import { grpcCallOf, type GrpcCall } from '../nest/grpc-call.js';
import { ClientLeftError } from './client-left.error.js';
import { CANCELLED, grpcStatus, type GrpcStatus } from './grpc-status.js';
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
interface TransportPayload {
  readonly status: 'error';
  /** Absent for a mistake of the program. */
  readonly code?: string;
  readonly message: string;
}

/** Loads the exception of a transport for `toTransportError`. */
export async function prepareTransport(type: string): Promise<void> {
  const load = exceptions.has(type) ? undefined : PACKAGES[type];
  // Without the package the error is thrown as it is, which the filters know too.
  if (load) exceptions.set(type, await detached(load).catch(() => undefined));
}

/**
 * The exception of the transport for a lock error, with the error as its `cause`: `RpcException`, `WsException`, an error
 * with `extensions.code` for GraphQL. Other errors, and errors on an unknown transport, are returned as they are.
 *
 * @param args the arguments that Nest has for the handler; a call of gRPC among them gets a status of gRPC
 */
export function toTransportError(error: unknown, type: string, args: readonly unknown[]): unknown {
  const Exception = exceptions.get(type);
  const call = grpcCallOf(args);
  const message = publicMessage(error);
  if (Exception && call && error instanceof ClientLeftError)
    return translate(error, new Exception(CANCELLED));
  if (!message) return error;
  const payload: TransportPayload = { status: 'error', ...message };
  if (type === 'graphql') return new LockGraphqlError(payload, error);
  if (!Exception) return error;
  return translate(error, new Exception(call ? grpcStatus(message, call) : payload));
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

/** The message for a client. Logs a mistake of the program, which the client does not learn. */
export function transportPayload(error: LockError): TransportPayload {
  return { status: 'error', message: 'Internal server error', ...messageOrLog(error) };
}

/** As `transportPayload`, with the status of gRPC for a call of it. */
export function rpcPayload(error: LockError, args: readonly unknown[]): TransportPayload | GrpcStatus {
  const call = grpcCallOf(args);
  return call ? grpcStatus(messageOrLog(error), call) : transportPayload(error);
}

function messageOrLog(error: LockError): ReturnType<typeof publicMessage> {
  const message = publicMessage(error);
  if (!message) logger.error(error);
  return message;
}

/**
 * Answers a call of `@GrpcStreamCall()` for an error of its lock. Nest would leave the call open, and the error to no
 * handler of rejections, which ends the process.
 *
 * @throws another error as it is
 */
export function answerCall(call: GrpcCall, error: unknown): void {
  if (error instanceof TranslatedLockError) call.emit('error', statusOf(error));
  else if (isLockError(error)) call.emit('error', grpcStatus(messageOrLog(error), call));
  else throw error;
}

/** The payload of an `RpcException`. */
function statusOf(error: object): unknown {
  return (error as { getError?(): unknown }).getError?.() ?? error;
}
