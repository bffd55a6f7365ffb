import type { LockHolder } from './lock-store.js';
import { escapeUnprintable } from '../common/redaction.js';

/** The kinds of lock errors. Tell errors apart by `code`, which is the same in every build of this package. */
export type LockErrorCode =
  | 'LOCK_WAIT_TIMEOUT'
  | 'LOCK_LOST'
  | 'LOCK_NOT_HELD'
  | 'LOCK_STORE'
  | 'LOCK_KEY'
  | 'LOCK_DEADLOCK'
  | 'LOCK_SHUTDOWN'
  | 'LOCK_CONFIGURATION';

/** The base of all errors of this package. Tell them apart by `code`. */
export abstract class LockError extends Error {
  abstract readonly code: LockErrorCode;

  constructor(
    message: string,
    /** The key that the error is about; `undefined` if it is not about one key. */
    readonly key: string | undefined,
    options?: ErrorOptions,
  ) {
    super(escapeUnprintable(message), options);
    this.name = new.target.name;
  }
}

/**
 * Another owner holds the lock or is ahead in the queue, and `waitMs` is over, or `maxWaiting` others wait already. The caller is not
 * in the queue any more. On HTTP 423.
 */
export class LockWaitTimeoutError extends LockError {
  readonly code = 'LOCK_WAIT_TIMEOUT';

  constructor(
    key: string,
    /** How long the call was allowed to wait, in ms; 0 if it was not to wait. */
    readonly waitMs: number,
    /** The owner id of the holder that the store last named. */
    readonly holder?: string,
    /** The remaining lease of that holder, in ms; `Infinity` for a lease without an end. */
    readonly remainingMs?: number,
    /** Who that holder is, as far as it is known. Do not send it to clients of the application. */
    readonly heldBy?: LockHolder,
    /** How many waited for the key, if the call was refused by `maxWaiting`; otherwise `undefined`. */
    readonly waiting?: number,
    /** The place in line that `onQueued` got, if the call had that option and waited: 1 for the next one. */
    readonly position?: number,
  ) {
    const by =
      holder === undefined
        ? 'others are in line before it'
        : `held by ${holderName(heldBy) ?? holder}, ${remainingMs === Infinity ? 'without an end of its lease' : `whose lease runs for another ${Math.round(remainingMs ?? 0)} ms`}`;
    super(
      waiting !== undefined
        ? `"${key}" is not free: ${by}. ${waiting} wait for it already, and maxWaiting allows no more. Try again later, or raise maxWaiting.`
        : waitMs === 0
          ? `"${key}" is not free: ${by}. Give waitMs to wait for it.`
          : `Could not acquire "${key}" within ${waitMs} ms: ${by}. ${adviceFor(heldBy)}`,
      key,
    );
  }
}

function adviceFor({ site }: Partial<LockHolder> = {}): string {
  return site?.startsWith('acquire()')
    ? 'Was that lock never released? Use withLock or await using. Otherwise raise waitMs, or do less work under the lock.'
    : 'Raise waitMs, or do less work under the lock.';
}

/** How messages name a holder: `shop on pod-7 (GoodsController.purchase) for 41 s`. `undefined` if its process is not known. */
export function holderName({ client, site, heldMs }: Partial<LockHolder> = {}): string | undefined {
  if (!client) return undefined;
  const what = site === undefined ? '' : ` (${site})`;
  const since = heldMs === undefined ? '' : ` for ${Math.round(heldMs / 1000)} s`;
  return `${client.application} on ${client.host}${what}${since}`;
}

/**
 * The lock was lost before its release. Another owner may hold it now and work at the same time; a resource can tell the two apart only
 * by the fencing token. On HTTP 503, without `Retry-After`, because the work may have been done.
 */
export class LockLostError extends LockError {
  readonly code = 'LOCK_LOST';

  constructor(
    key: string,
    /** Time from the acquisition to the loss, in ms. */
    readonly heldMs: number,
    /**
     * `expired`: the lease was not renewed in time. `taken`: the store says that this owner does not hold the lock. `takeover`: another
     * call takes the lock over (`onBusy: 'takeover'`); if this is the reason of `lock.signal`, the lock is still held for the grace
     * that the message names. `shutdown`: the application closes, and its grace period is over.
     */
    readonly reason: 'expired' | 'taken' | 'takeover' | 'shutdown',
    detail: string,
    options?: ErrorOptions,
  ) {
    super(
      `Lost "${key}" after ${Math.round(heldMs)} ms: ${detail}. Another owner may hold it now; do not write without the fencing token.`,
      key,
      options,
    );
  }
}

/**
 * Code that must run under a lock was called without it, a lock was used after it was released or detached, or a detached lock cannot be
 * attached any more. On HTTP 500.
 */
export class LockNotHeldError extends LockError {
  readonly code = 'LOCK_NOT_HELD';
}

/** The store could not execute a request. `cause` is the error of its client library. On HTTP 503. */
export class LockStoreError extends LockError {
  readonly code = 'LOCK_STORE';

  constructor(
    message: string,
    key: string | undefined,
    /**
     * `unreachable`: the request was not sent. `unknown`: the store did not reply, so it may or may not have executed the request.
     * `unready`: the store cannot execute it now, but may later. `refused`: the store rejects this request, and will again.
     */
    readonly reason: 'unreachable' | 'unknown' | 'unready' | 'refused',
    options?: ErrorOptions,
  ) {
    super(message, key, options);
  }
}

/** The values from which a key was to be made are not usable: one is missing, empty or an object. On HTTP 400. */
export class LockKeyError extends LockError {
  readonly code = 'LOCK_KEY';

  constructor(
    message: string,
    key: string | undefined,
    /** The part of the request that the client has left out or sent wrong: `header x-tenant`, `body.sku`. */
    readonly part?: string,
  ) {
    super(message, key);
  }
}

/**
 * The call would wait for itself. Its own flow holds the key, in another mode or with `reentrant: false`; or the holder waits for a key
 * that this flow holds. On HTTP 500.
 */
export class LockDeadlockError extends LockError {
  readonly code = 'LOCK_DEADLOCK';

  constructor(
    message: string,
    key: string,
    /** The cycle, beginning with the requested key. The holder of each key waits for the next one, and the caller holds the last one. */
    readonly path: readonly string[],
  ) {
    super(message, key);
  }
}

/** The application is closing, so the service acquires no more locks. On HTTP 503. */
export class LockShutdownError extends LockError {
  readonly code = 'LOCK_SHUTDOWN';
}

/** A mistake in the program: options that contradict each other, a template with unknown names, a missing module. On HTTP 500. */
export class LockConfigurationError extends LockError {
  readonly code = 'LOCK_CONFIGURATION';

  constructor(message: string, options?: ErrorOptions) {
    super(message, undefined, options);
  }
}

/** The other errors with the code of a loss, `StaleTokenError` and `CommitRefusedError` of `nestjs-distributed-lock/guard`. */
interface RefusedToken extends LockError {
  readonly code: 'LOCK_LOST';
  readonly tokenOffered: number;
  readonly tokenSeen?: number;
  readonly heldMs?: undefined;
  readonly reason?: undefined;
}

/** The errors that have this code. */
type LockErrorWith<Code extends LockErrorCode> = Extract<
  | RefusedToken
  | LockWaitTimeoutError
  | LockLostError
  | LockNotHeldError
  | LockStoreError
  | LockKeyError
  | LockDeadlockError
  | LockShutdownError
  | LockConfigurationError,
  { readonly code: Code }
>;

/**
 * True for errors of this package, including those of another copy or build of it; with a code, only for those that have it.
 *
 * @example
 * ```ts
 * import { isLockError } from 'nestjs-distributed-lock';
 *
 * const holderOf = (error: unknown) => (isLockError(error, 'LOCK_WAIT_TIMEOUT') ? error.holder : undefined);
 * ```
 */
export function isLockError<Code extends LockErrorCode>(
  error: unknown,
  code: Code,
): error is LockErrorWith<Code>;
export function isLockError(error: unknown): error is LockError;
export function isLockError(error: unknown, code?: unknown): boolean {
  if (!(error instanceof Error && 'code' in error && 'key' in error)) return false;
  // Not only `undefined` stands for no code: `errors.filter(isLockError)` gives an index.
  return typeof code === 'string' ? error.code === code : String(error.code).startsWith('LOCK_');
}
