import { STATUS_CODES } from 'node:http';
import { HttpException } from '@nestjs/common';
import { LockConfigurationError, isLockError, type LockErrorCode } from '../../port/lock.errors.js';
import { checkOptionNames, type OptionNames } from '../../checks/option-names.js';
import { overlay } from '../../checks/overlay.js';

/** Which HTTP status stands for what. Not 429 for `busy`: clients and gateways take that as their own quota. */
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

/** What clients are told. Neither the key nor the holder nor a number: they name tenants and machines. */
const PUBLIC: Partial<Record<LockErrorCode, readonly [keyof LockHttpStatus, string]>> = {
  LOCK_WAIT_TIMEOUT: ['busy', 'This is in use by another request. Try again in a moment.'],
  LOCK_STORE: ['storeDown', 'The lock could not be acquired. Try again later.'],
  LOCK_SHUTDOWN: ['storeDown', 'The service is closing. Try again later.'],
  LOCK_LOST: ['lost', 'The lock was lost while the request was handled. Its outcome is not certain.'],
  LOCK_KEY: ['badKey', 'The request does not name what it wants to use.'],
};

/** @throws LockConfigurationError for a status that is not an error's */
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

/** What clients of any transport may read of a lock error; `undefined` for errors that are the program's mistake. */
export function publicMessage(
  error: unknown,
): { readonly code: LockErrorCode; readonly message: string } | undefined {
  const known = isLockError(error) ? PUBLIC[error.code] : undefined;
  return known && isLockError(error) ? { code: error.code, message: known[1] } : undefined;
}

/**
 * The `HttpException` that tells a client of a lock error, with the error as its `cause`.
 *
 * Whatever else is given comes back as it is: also lock errors that are mistakes of the program, such as
 * `LockConfigurationError`, so that Nest logs them and answers 500.
 */
export function toHttpException(error: unknown, options?: LockHttpOptions): unknown {
  const known = isLockError(error) ? PUBLIC[error.code] : undefined;
  if (!known || !isLockError(error)) return error;
  const [kind, message] = known;
  const statusCode = resolveLockHttp(options)[kind];
  const body = { statusCode, error: STATUS_CODES[statusCode] ?? 'Error', message, code: error.code };
  return new HttpException(body, statusCode, { cause: error });
}

/**
 * Seconds for `Retry-After`, or `undefined` where a client must not repeat by itself: after a loss the work may have
 * been done. The holder's remaining lease says something only where leases are fixed; a watchdog renews it.
 */
export function retryAfterSeconds(error: unknown, leaseMs?: number): number | undefined {
  if (!isLockError(error) || error.code !== 'LOCK_WAIT_TIMEOUT') return undefined;
  const { remainingMs } = error as { readonly remainingMs?: number };
  if (leaseMs === undefined || remainingMs === undefined) return 1;
  return Math.max(1, Math.ceil(Math.min(remainingMs, leaseMs) / 1000));
}
