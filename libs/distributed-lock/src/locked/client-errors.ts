// What clients get for lock errors: statuses of HTTP and gRPC, payloads of the other transports.
import { STATUS_CODES } from 'node:http';
import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  HttpException,
  Inject,
  Logger,
  type Type,
} from '@nestjs/common';
import { BaseExceptionFilter, HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { throwError } from 'rxjs';
import { detached } from '../common/promises.js';
import { getLockHttpToken } from '../distributed-lock.tokens.js';
import { type Answer, grpcCallOf } from '../nest/answers.js';
import { findProvider } from '../nest/metadata.js';
import { isLockError, LockError, type LockErrorCode } from '../port/lock.errors.js';
import {
  checkOptions,
  describeNumber,
  type OptionRule,
  type OptionRules,
  overlay,
  RULE,
} from '../port/option-checks.js';
import type { LockedOptions } from './locked.options.js';

/**
 * The answers to lock errors for HTTP clients. Statuses are from 400 to 599. Use 429 for `busy` only where the key limits a client,
 * because clients and gateways take it for their own quota.
 */
export interface LockHttpOptions {
  /** The wait ran out; default 423. */
  readonly busy?: number;
  /** The store cannot be reached, or the application is closing; default 503. */
  readonly storeDown?: number;
  /** The lock was lost while the handler ran; default 503. */
  readonly lost?: number;
  /** No key can be made of the request; default 400. */
  readonly badKey?: number;
  /**
   * `true`: the body of `busy` has the field `position`, the approximate place in line that the call had when it began to wait: 1 for
   * the next one. Absent if the call did not wait. Default `false`. A call of `LockService` in a handler has it with `onQueued`, or if
   * the registration has this option.
   */
  readonly position?: boolean;
}

type LockHttpAnswers = Required<LockHttpOptions>;

const STATUS: OptionRule = [
  (code) => Number.isInteger(code) && Number(code) >= 400 && Number(code) <= 599,
  'a status from 400 to 599',
  describeNumber,
];
const STATUSES = { busy: STATUS, storeDown: STATUS, lost: STATUS, badKey: STATUS };
const RULES: OptionRules<LockHttpOptions> = { ...STATUSES, position: RULE.boolean };
const DEFAULTS: LockHttpAnswers = { busy: 423, storeDown: 503, lost: 503, badKey: 400, position: false };

/** Status codes of gRPC: https://grpc.io/docs/guides/status-codes/. */
const GRPC = {
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  aborted: 10,
  internal: 13,
  unavailable: 14,
};

interface ClientAnswer {
  readonly http: Exclude<keyof LockHttpAnswers, 'position'>;
  readonly grpc: number;
  /**
   * The text that the client may read. It names no key, holder or number, which could reveal tenants and machines. The message of
   * `LOCK_KEY` also names the wrong part of the request as clients write it (`body.sku`), without its value.
   */
  readonly message: string;
}

/**
 * The answer to clients for each lock error. An error code that is missing here is a mistake in the program, and clients get
 * Nest's own 500.
 */
const ANSWERS: Partial<Record<LockErrorCode, ClientAnswer>> = {
  LOCK_WAIT_TIMEOUT: {
    http: 'busy',
    grpc: GRPC.aborted,
    message: 'This is in use by another request. Try again in a moment.',
  },
  LOCK_STORE: {
    http: 'storeDown',
    grpc: GRPC.unavailable,
    message: 'The lock could not be acquired. Try again later.',
  },
  LOCK_SHUTDOWN: {
    http: 'storeDown',
    grpc: GRPC.unavailable,
    message: 'The service is closing. Try again later.',
  },
  LOCK_LOST: {
    http: 'lost',
    // Clients retry `aborted` and `unavailable` automatically, but the work of this call may have been done already.
    grpc: GRPC.unknown,
    message: 'The lock was lost while the request was handled. Its outcome is not certain.',
  },
  LOCK_KEY: {
    http: 'badKey',
    grpc: GRPC.invalidArgument,
    message: 'The request does not name what it wants to use.',
  },
};

/**
 * Fills in and checks the statuses.
 *
 * @throws LockConfigurationError for a status below 400 or above 599
 */
export function resolveLockHttp(
  options: LockHttpOptions = {},
  base: LockHttpAnswers = DEFAULTS,
): LockHttpAnswers {
  checkOptions('http', options, RULES);
  return overlay(base, options);
}

/**
 * Returns the answer and its code for a lock error that the client may know of; `undefined` for a mistake in the program and for
 * any other error.
 */
function clientAnswer(error: unknown): (ClientAnswer & { readonly code: LockErrorCode }) | undefined {
  if (!isLockError(error)) return undefined;
  const { code, part } = error as typeof error & { readonly part?: string };
  const answer = ANSWERS[code];
  if (!answer) return undefined;
  const { message } = answer;
  if (part === undefined) return { ...answer, code };
  return { ...answer, code, message: `${message.slice(0, -1)}: ${part} is missing or not valid.` };
}

/**
 * Makes the `HttpException` that answers a client for a lock error, with that error as its `cause`.
 *
 * Returns all other errors as they are, and also lock errors that are mistakes in the program, such as `LockConfigurationError`:
 * Nest logs those and answers 500.
 */
export function toHttpException(error: unknown, options?: LockHttpOptions): unknown {
  const answer = clientAnswer(error);
  if (!answer) return error;
  const { http, message, code } = answer;
  const { [http]: statusCode, position: isPositionShown } = resolveLockHttp(options);
  const { position } = error as { readonly position?: number };
  const place = isPositionShown && position !== undefined && { position };
  const body = { statusCode, error: STATUS_CODES[statusCode] ?? 'Error', message, code, ...place };
  return new HttpException(body, statusCode, { cause: error });
}

/**
 * Makes the `HttpException` for one request, and sets the header `Retry-After` of its response.
 *
 * @param options of the `@Locked`; without them, the statuses of the registration without a name apply, if there is one
 */
export function httpErrorFor(
  error: unknown,
  { host, httpAdapter, moduleRef }: HttpAnswer,
  { name, http, leaseMs }: Pick<LockedOptions, 'name' | 'http' | 'leaseMs'> = {},
): unknown {
  const response: unknown = host.switchToHttp().getResponse();
  const seconds = retryAfterSeconds(error, leaseMs);
  if (seconds !== undefined && !httpAdapter.isHeadersSent(response)) {
    httpAdapter.setHeader(response, 'Retry-After', String(seconds));
  }
  const status = findProvider<LockHttpAnswers>(moduleRef, getLockHttpToken(name));
  return toHttpException(error, resolveLockHttp(http, status));
}

interface HttpAnswer extends Pick<HttpAdapterHost, 'httpAdapter'> {
  readonly host: ArgumentsHost;
  readonly moduleRef: ModuleRef;
}

/**
 * The seconds for the header `Retry-After`. `undefined` if the client must not retry automatically: the work may have been done,
 * or the store would refuse the retry, too. A fixed lease tells when the key becomes free; a lease that a watchdog renews does
 * not.
 */
export function retryAfterSeconds(error: unknown, leaseMs?: number): number | undefined {
  if (!isLockError(error)) return undefined;
  const { reason, remainingMs } = error as { readonly reason?: string; readonly remainingMs?: number };
  switch (error.code) {
    case 'LOCK_STORE':
      return reason === 'refused' ? undefined : 1;
    case 'LOCK_SHUTDOWN':
      return 1;
    case 'LOCK_WAIT_TIMEOUT':
      if (leaseMs === undefined || remainingMs === undefined) return 1;
      return Math.max(1, Math.ceil(Math.min(remainingMs, leaseMs) / 1000));
    default:
      return undefined;
  }
}

/** The reason with which a call leaves the queue when its client has disconnected. Nobody receives this error. */
export class ClientLeftError extends HttpException {
  constructor() {
    super('Client Closed Request', 499);
  }
}

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

/** Makes the payload for a client of messages or of a gateway. For a gRPC call among `args` it is a gRPC status. */
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

/** Nest's own format of an error, with the code of the lock error. A mistake in the program gets no code. */
function transportPayload(error: LockError) {
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

/**
 * Sends lock errors to the clients of gateways. Bound to each gateway, because Nest's global filters do not apply to gateways and
 * Nest 11 sends no exceptions to clients of `ws`.
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

/** A socket of socket.io, whose `emit` sends to the client, or of `ws`, whose `emit` only calls local listeners. */
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
    // oxlint-disable-next-line promise/valid-params -- this is no promise
    super.catch(httpErrorFor(error, { host, httpAdapter, moduleRef: this.moduleRef }), host);
  }
}
