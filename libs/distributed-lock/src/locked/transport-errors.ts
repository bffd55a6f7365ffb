// Lock errors for the clients of messages, gateways and GraphQL, as the exceptions of these transports. The interceptor
// translates the errors of its own lock, so that interceptors and filters of the application see what they expect there.
import { Logger, type Type } from '@nestjs/common';
import { withoutContext } from '../common/promises.js';
import { type Answer, grpcCallOf } from '../nest/answers.js';
import { isLockError, type LockError } from '../port/lock.errors.js';
import { clientAnswer, ClientLeftError, GRPC } from './client-errors.js';

/**
 * Loads the exception class of each transport. Nest's packages of transports are optional, but a call over a transport proves
 * that its package is installed.
 */
const PACKAGES: Readonly<Record<string, () => Promise<Type<Error>>>> = {
  rpc: async () => (await import('@nestjs/microservices')).RpcException,
  ws: async () => (await import('@nestjs/websockets')).WsException,
};

const exceptions = new Map<string, Type<Error> | undefined>();
const translated = new WeakSet<object>();
const logger = new Logger('DistributedLock');
const INTERNAL = 'Internal server error';

/** A lock error for a GraphQL client, with the code in `extensions.code`, where GraphQL's own errors have it. */
export class LockGraphqlError extends Error {
  readonly extensions: { readonly code: string };

  constructor(cause: LockError) {
    const { code = 'INTERNAL_SERVER_ERROR', message } = transportPayload(cause);
    super(message, { cause });
    this.name = 'LockGraphqlError';
    this.extensions = { code };
  }
}

/**
 * Loads the exception class of a transport, so that `toTransportError` can use it without waiting.
 *
 * @returns a promise for the first message of a transport, afterwards `undefined`
 */
export function prepareTransport(type: string): Promise<unknown> | undefined {
  const load = exceptions.has(type) ? undefined : PACKAGES[type];
  const note = (exception?: Type<Error>): unknown => exceptions.set(type, exception);
  // If the package cannot be loaded, the lock error is thrown untranslated. The filters of `error-filters.ts` handle that, too.
  return load && withoutContext(load).then(note, () => note());
}

/**
 * Makes the transport's exception for a lock error, with that error as its `cause`: `RpcException`, `WsException`, or for GraphQL
 * an error with `extensions.code`. Returns other errors as they are, and all errors of an unknown transport.
 *
 * @param args the handler's arguments; if there is a gRPC call among them, the exception has a gRPC status
 */
export function toTransportError(error: unknown, type: string, args: readonly unknown[]): unknown {
  const Exception = exceptions.get(type);
  if (Exception && error instanceof ClientLeftError && grpcCallOf(args))
    // The client has disconnected. This exception reaches nobody.
    return translate(
      error,
      new Exception({ status: 'error', code: GRPC.cancelled, message: 'The client has left.' }),
    );
  if (!clientAnswer(error)) return error;
  if (type === 'graphql') return new LockGraphqlError(error as LockError);
  return Exception ? translate(error, new Exception(payloadOf(error as LockError, args))) : error;
}

function translate(cause: unknown, exception: Error): Error {
  translated.add(exception);
  return Object.assign(exception, { cause });
}

/** For `@Catch` of the filters: matches those exceptions of messages and gateways that `toTransportError` has made. */
export class TranslatedLockError {
  declare readonly cause: LockError;

  static [Symbol.hasInstance](error: unknown): boolean {
    return translated.has(Object(error) as object);
  }
}

/** Makes the payload for a client of messages or of a gateway. For a gRPC call among `args` it is a gRPC status. */
export function payloadOf(error: LockError, args: readonly unknown[]): object {
  const call = grpcCallOf(args);
  if (!call) return transportPayload(error);
  const { code, grpc = GRPC.internal, message = INTERNAL } = answerOrLog(error) ?? {};
  if (code === undefined) return { status: 'error', code: grpc, message };
  // Take the Metadata class from the call, because the server may use another copy of the gRPC package.
  const Metadata = call.metadata.constructor as new () => { set(name: string, value: string): void };
  const metadata = new Metadata();
  metadata.set('lock-code', code);
  return { status: 'error', code: grpc, message, metadata };
}

/** Nest's own format of an error, with the code of the lock error. A mistake in the program gets no code. */
export function transportPayload(error: LockError) {
  const { code, message = INTERNAL } = answerOrLog(error) ?? {};
  return { status: 'error', message, ...(code && { code }) };
}

/** Returns the answer for the client, or logs the error if it is a mistake in the program, for which there is no answer. */
function answerOrLog(error: LockError): ReturnType<typeof clientAnswer> {
  const answer = clientAnswer(error);
  if (!answer) logger.error(error);
  return answer;
}

/**
 * Ends a call of `@GrpcStreamCall()` with its lock error. Nest itself would leave the call open and cause an unhandled rejection,
 * which ends the process.
 *
 * @param call the response, and the arguments of the handler
 * @throws any error that is not a lock error
 */
export function breakOffWith(
  error: unknown,
  { answer, args }: { readonly answer: Answer; readonly args: readonly unknown[] },
): void {
  if (error instanceof TranslatedLockError) answer.breakOff(error);
  else if (isLockError(error)) answer.breakOff(payloadOf(error, args));
  else throw error;
}
