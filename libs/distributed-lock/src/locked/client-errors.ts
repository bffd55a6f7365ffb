// What a client gets for each lock error: one table for all transports, and from it the answers over HTTP. The interceptor, the
// filters and `transport-errors.ts` ask here, and so does a filter of the application by `toHttpException`.
import { STATUS_CODES } from 'node:http';
import { type ArgumentsHost, HttpException } from '@nestjs/common';
import type { HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { getLockHttpToken } from '../distributed-lock.tokens.js';
import { findProvider } from '../nest/metadata.js';
import { isLockError, type LockErrorCode } from '../port/lock.errors.js';
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
export const GRPC = {
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
export function clientAnswer(error: unknown): (ClientAnswer & { readonly code: LockErrorCode }) | undefined {
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
