import { STATUS_CODES } from 'node:http';
import { HttpException } from '@nestjs/common';
import { isLockError, type LockErrorCode } from '../port/lock.errors.js';
import {
  checkOptions,
  describeNumber,
  type OptionRule,
  type OptionRules,
  overlay,
} from '../port/option-checks.js';

/**
 * HTTP statuses of lock errors, from 400 to 599. Use 429 for `busy` only where the key limits a client, because clients and
 * gateways take it for their own quota.
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
}

export type LockHttpStatus = Required<LockHttpOptions>;

const STATUS: OptionRule = [
  (code) => Number.isInteger(code) && Number(code) >= 400 && Number(code) <= 599,
  'a status from 400 to 599',
  describeNumber,
];
const RULES: OptionRules<LockHttpOptions> = { busy: STATUS, storeDown: STATUS, lost: STATUS, badKey: STATUS };
const DEFAULTS: LockHttpStatus = { busy: 423, storeDown: 503, lost: 503, badKey: 400 };

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
  readonly http: keyof LockHttpStatus;
  readonly grpc: number;
  /**
   * What the client may read. It names no key, holder or number, which could reveal tenants and machines. The message of
   * `LOCK_KEY` also names the part of the request that is wrong, as its client knows it, without the value.
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
  base: LockHttpStatus = DEFAULTS,
): LockHttpStatus {
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
  const statusCode = resolveLockHttp(options)[http];
  const body = { statusCode, error: STATUS_CODES[statusCode] ?? 'Error', message, code };
  return new HttpException(body, statusCode, { cause: error });
}

/**
 * The seconds for the header `Retry-After`. `undefined` where a client must not retry automatically, because the work may have
 * been done, and where the store would refuse again. The holder's remaining lease counts only if it is fixed; a watchdog renews
 * the others.
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
