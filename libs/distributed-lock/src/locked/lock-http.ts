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

/** Numbers of https://grpc.io/docs/guides/status-codes/. */
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
   * Names no key, no holder and no number, which could tell of tenants and machines. The message of `LOCK_KEY` also names the part of
   * the request that is wrong, as its client knows it, without the value.
   */
  readonly message: string;
}

/** What clients are answered. A code that is missing here is a mistake of the program. */
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
    // Clients repeat a call with `aborted` or `unavailable` by themselves. The work of this call may have been done.
    grpc: GRPC.unknown,
    message: 'The lock was lost while the request was handled. Its outcome is not certain.',
  },
  LOCK_KEY: {
    http: 'badKey',
    grpc: GRPC.invalidArgument,
    message: 'The request does not name what it wants to use.',
  },
};

/** @throws LockConfigurationError for a status below 400 or above 599 */
export function resolveLockHttp(
  options: LockHttpOptions = {},
  base: LockHttpStatus = DEFAULTS,
): LockHttpStatus {
  checkOptions('http', options, RULES);
  return overlay(base, options);
}

/** The answer to a client for a lock error, with its code; `undefined` for a mistake of the program, and for other errors. */
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
 * The `HttpException` for the client of a lock error, with the error as its `cause`.
 *
 * Other errors are returned as they are. So are lock errors that are mistakes of the program, such as
 * `LockConfigurationError`: Nest logs them and answers 500.
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
 * Seconds for `Retry-After`; `undefined` where a client must not repeat by itself, because the work may have been done, and where
 * the store will refuse again. The holder's remaining lease counts only for fixed leases, because a watchdog renews the others.
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

/** The reason for which a call leaves the queue when its client has gone. No client sees it. */
export class ClientLeftError extends HttpException {
  constructor() {
    super('Client Closed Request', 499);
  }
}
