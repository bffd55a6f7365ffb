import { type ArgumentsHost, Catch, type ExceptionFilter, Inject, Logger, type Type } from '@nestjs/common';
import { BaseExceptionFilter, HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { throwError } from 'rxjs';
import { detached } from '../common/promises.js';
import { findProvider, getLockHttpToken } from '../distributed-lock.tokens.js';
import { isLockError, LockError } from '../port/lock.errors.js';
import { breakOffCall, type GrpcCall, grpcCallOf } from './answers.js';
import {
  clientAnswer,
  ClientLeftError,
  GRPC,
  type LockHttpStatus,
  retryAfterSeconds,
  toHttpException,
} from './lock-http.js';

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
class LockGraphqlError extends Error {
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
  // If the package cannot be loaded, the lock error is thrown untranslated. The filters below handle that, too.
  return load && detached(load).then(note, () => note());
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
class TranslatedLockError {
  declare readonly cause: LockError;

  static [Symbol.hasInstance](error: unknown): boolean {
    return translated.has(Object(error) as object);
  }
}

/** What a client of messages or of a gateway receives. For a gRPC call among `args` it is a gRPC status. */
function payloadOf(error: LockError, args: readonly unknown[]): object {
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

/** Nest's own format of an error, with the code of the lock error. An error by a mistake in the program has no code. */
function transportPayload(error: LockError) {
  const { code, message = INTERNAL } = answerOrLog(error) ?? {};
  return { status: 'error', message, ...(code && { code }) };
}

/** Returns the answer for the client. If the error is a mistake in the program, there is none, so logs it. */
function answerOrLog(error: LockError): ReturnType<typeof clientAnswer> {
  const answer = clientAnswer(error);
  if (!answer) logger.error(error);
  return answer;
}

/**
 * Ends a call of `@GrpcStreamCall()` with its lock error. Nest itself would leave the call open, and let a promise reject that
 * nobody handles, which ends the process.
 *
 * @throws any error that is not a lock error
 */
export function answerCall(call: GrpcCall, error: unknown): void {
  if (error instanceof TranslatedLockError) breakOffCall(call, error);
  else if (isLockError(error)) call.emit('error', payloadOf(error, [call]));
  else throw error;
}

/**
 * Sends lock errors to the clients of gateways. Bound to each gateway, because Nest's global filters do not apply to gateways.
 * And Nest 11 sends no exceptions at all to clients of `ws`.
 */
@Catch(LockError, TranslatedLockError)
export class LockErrorGatewayFilter implements ExceptionFilter<LockError | TranslatedLockError> {
  static readonly instance = new LockErrorGatewayFilter();

  catch(error: LockError | TranslatedLockError, host: ArgumentsHost): void {
    sendToSocket(error instanceof TranslatedLockError ? error.cause : error, host);
  }
}

function sendToSocket(error: LockError, host: ArgumentsHost): void {
  const client = host.switchToWs().getClient<Socket | undefined>();
  const [event, data] = ['exception', transportPayload(error)];
  if (typeof client?.readyState === 'number') client.send?.(JSON.stringify({ event, data }));
  else client?.emit?.(event, data);
}

/** A socket of `ws`, whose `emit` stays in this process, or of socket.io. */
interface Socket {
  readonly readyState?: number;
  send?(message: string): void;
  emit?(event: string, data: unknown): void;
}

/**
 * Answers the client for a lock error that the handler did not catch, from `LockService` or from a locked provider.
 *
 * The module registers it for the whole application. A filter of the application that catches everything and is registered later,
 * or nearer to the handler, takes precedence; let that filter call `toHttpException`.
 */
@Catch(LockError, LockGraphqlError)
export class LockErrorFilter
  extends BaseExceptionFilter
  implements ExceptionFilter<LockError | LockGraphqlError>
{
  constructor(
    @Inject(HttpAdapterHost) protected override readonly httpAdapterHost: HttpAdapterHost,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
  ) {
    super();
  }

  override catch(error: LockError | LockGraphqlError, host: ArgumentsHost): unknown {
    switch (host.getType<string>()) {
      case 'http':
        return this.answerHttp(error as LockError, host);
      case 'rpc':
        return throwError(() => payloadOf(error as LockError, host.getArgs()));
      case 'ws':
        return sendToSocket(error as LockError, host);
      case 'graphql':
        throw error instanceof LockGraphqlError ? error : new LockGraphqlError(error);
      default:
        // Throw it: if the filter returned the error, the caller would take it for a result.
        throw error;
    }
  }

  private answerHttp(error: LockError, host: ArgumentsHost): void {
    const { httpAdapter } = this.httpAdapterHost;
    const response: unknown = host.switchToHttp().getResponse();
    const seconds = retryAfterSeconds(error);
    if (seconds !== undefined && !httpAdapter.isHeadersSent(response)) {
      httpAdapter.setHeader(response, 'Retry-After', String(seconds));
    }
    // Use the statuses of the registration without a name, if the application has one.
    const status = findProvider<LockHttpStatus>(this.moduleRef, getLockHttpToken());
    // oxlint-disable-next-line promise/valid-params -- this is no promise
    super.catch(toHttpException(error, status), host);
  }
}
