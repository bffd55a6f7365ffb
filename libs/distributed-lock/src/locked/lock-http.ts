import { STATUS_CODES } from 'node:http';
import { HttpException } from '@nestjs/common';
import { LockConfigurationError, isLockError, type LockErrorCode } from '../port/lock.errors.js';
import { checkOptionNames, type OptionNames, overlay } from '../options/option-names.js';

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

const OPTION_NAMES: OptionNames<LockHttpOptions> = { busy: true, storeDown: true, lost: true, badKey: true };
const DEFAULTS: LockHttpStatus = { busy: 423, storeDown: 503, lost: 503, badKey: 400 };

/**
 * Messages for clients. They name no key, no holder and no number, which could tell of tenants and machines. The message of
 * `LOCK_KEY` also names the part of the request that is wrong, as its client knows it, without the value.
 */
const PUBLIC: Partial<Record<LockErrorCode, readonly [keyof LockHttpStatus, string]>> = {
  LOCK_WAIT_TIMEOUT: ['busy', 'This is in use by another request. Try again in a moment.'],
  LOCK_STORE: ['storeDown', 'The lock could not be acquired. Try again later.'],
  LOCK_SHUTDOWN: ['storeDown', 'The service is closing. Try again later.'],
  LOCK_LOST: ['lost', 'The lock was lost while the request was handled. Its outcome is not certain.'],
  LOCK_KEY: ['badKey', 'The request does not name what it wants to use.'],
};

/** @throws LockConfigurationError for a status below 400 or above 599 */
export function resolveLockHttp(
  options: LockHttpOptions = {},
  base: LockHttpStatus = DEFAULTS,
): LockHttpStatus {
  checkOptionNames('http', options, OPTION_NAMES);
  const status: LockHttpStatus = overlay(base, options);
  for (const [name, code] of Object.entries(status)) {
    if (!Number.isInteger(code) || code < 400 || code > 599) {
      throw new LockConfigurationError(
        `http.${name} must be a status from 400 to 599; it is ${String(code)}.`,
      );
    }
  }
  return status;
}

/** The part of a lock error that clients may read; `undefined` for a mistake of the program. */
export function publicMessage(
  error: unknown,
): { readonly code: LockErrorCode; readonly message: string } | undefined {
  if (!isLockError(error)) return undefined;
  const { code } = error;
  const [, message] = PUBLIC[code] ?? [];
  if (message === undefined) return undefined;
  const { part } = error as { readonly part?: string };
  if (part === undefined) return { code, message };
  return { code, message: `${message.slice(0, -1)}: ${part} is missing or not valid.` };
}

/**
 * The `HttpException` for the client of a lock error, with the error as its `cause`.
 *
 * Other errors are returned as they are. So are lock errors that are mistakes of the program, such as
 * `LockConfigurationError`: Nest logs them and answers 500.
 */
export function toHttpException(error: unknown, options?: LockHttpOptions): unknown {
  const known = publicMessage(error);
  const [kind] = (known && PUBLIC[known.code]) ?? [];
  if (!known || !kind) return error;
  const statusCode = resolveLockHttp(options)[kind];
  const body = {
    statusCode,
    error: STATUS_CODES[statusCode] ?? 'Error',
    message: known.message,
    code: known.code,
  };
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
