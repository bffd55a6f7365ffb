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

/** Nest's packages of transports are optional. A call over a transport proves that its package is installed. */
const PACKAGES: Readonly<Record<string, () => Promise<Type<Error>>>> = {
  rpc: async () => (await import('@nestjs/microservices')).RpcException,
  ws: async () => (await import('@nestjs/websockets')).WsException,
};

const exceptions = new Map<string, Type<Error> | undefined>();
const translated = new WeakSet<object>();
const logger = new Logger('DistributedLock');
const INTERNAL = 'Internal server error';

/** A lock error for a client of GraphQL, with the code where GraphQL's own errors have it. */
class LockGraphqlError extends Error {
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
    // The client has left, so nobody receives this exception.
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

/** For filters: matches the exceptions that `toTransportError` has made for messages and gateways. */
class TranslatedLockError {
  declare readonly cause: LockError;

  static [Symbol.hasInstance](error: unknown): boolean {
    return translated.has(Object(error) as object);
  }
}

/** The error that a client of a message or of a gateway gets; for a call of gRPC among `args`, a status of gRPC. */
function payloadOf(error: LockError, args: readonly unknown[]): object {
  const call = grpcCallOf(args);
  if (!call) return transportPayload(error);
  const { code, grpc = GRPC.internal, message = INTERNAL } = answerOrLog(error) ?? {};
  if (code === undefined) return { status: 'error', code: grpc, message };
  // The class comes from the call, because the server may use another copy of the package.
  const Metadata = call.metadata.constructor as new () => { set(name: string, value: string): void };
  const metadata = new Metadata();
  metadata.set('lock-code', code);
  return { status: 'error', code: grpc, message, metadata };
}

/** Nest's own shape of an error, with a code unless it is a mistake of the program. */
function transportPayload(error: LockError) {
  const { code, message = INTERNAL } = answerOrLog(error) ?? {};
  return { status: 'error', message, ...(code && { code }) };
}

/** Logs an error that is a mistake of the program, because the client is not told of it. */
function answerOrLog(error: LockError): ReturnType<typeof clientAnswer> {
  const answer = clientAnswer(error);
  if (!answer) logger.error(error);
  return answer;
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

/**
 * Sends lock errors to the clients of gateways. It is bound to each gateway, because Nest's global filters do not reach
 * gateways. Nest 11 sends no exception at all to clients of `ws`.
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
 * Answers clients for lock errors that a handler lets through, as from `LockService` or a locked provider.
 *
 * The module registers it for the whole application, gateways included. A filter of the application that catches
 * everything and is bound later, or nearer to the handler, comes first. Let it call `toHttpException`.
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
        // Thrown, because a caller would take a returned error for a result.
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
    // The statuses of the registration without a name, if there is one.
    const status = findProvider<LockHttpStatus>(this.moduleRef, getLockHttpToken());
    // oxlint-disable-next-line promise/valid-params -- this is no promise
    super.catch(toHttpException(error, status), host);
  }
}
