import { printable } from '../printing/printable.js';

/** What can go wrong with a lock. Tell errors apart by `code`: it also holds between two builds of this package. */
export type LockErrorCode =
  | 'LOCK_WAIT_TIMEOUT'
  | 'LOCK_LOST'
  | 'LOCK_NOT_HELD'
  | 'LOCK_STORE'
  | 'LOCK_KEY'
  | 'LOCK_DEADLOCK'
  | 'LOCK_SHUTDOWN'
  | 'LOCK_CONFIGURATION';

export abstract class LockError extends Error {
  abstract readonly code: LockErrorCode;

  constructor(
    message: string,
    /** The key it is about, or `undefined` where there is none. */
    readonly key: string | undefined,
    options?: ErrorOptions,
  ) {
    super(printable(message), options);
    this.name = new.target.name;
  }
}

/** The lock is held by another and `waitMs` is over. Nothing is held and no place in line is kept. */
export class LockWaitTimeoutError extends LockError {
  readonly code = 'LOCK_WAIT_TIMEOUT';

  constructor(
    key: string,
    readonly waitMs: number,
    /** The owner that held the lock when last seen. */
    readonly holder?: string,
    /** What was left of the holder's lease when last seen, in ms. */
    readonly remainingMs?: number,
  ) {
    const by =
      holder === undefined
        ? 'others are in line before it'
        : `held by ${holder}, ${remainingMs === Infinity ? 'without an end of its lease' : `whose lease runs for another ${Math.round(remainingMs ?? 0)} ms`}`;
    super(
      waitMs === 0
        ? `"${key}" is not free: ${by}. Give waitMs to wait for it.`
        : `Could not acquire "${key}" within ${waitMs} ms: ${by}. Raise waitMs, or do less work under the lock.`,
      key,
    );
  }
}

/** The lease ended before the release. Another owner may hold the lock now; only the fencing token tells them apart. */
export class LockLostError extends LockError {
  readonly code = 'LOCK_LOST';

  constructor(
    key: string,
    readonly heldMs: number,
    /** `expired`: not renewed in time. `taken`: the store says that it is not ours any more. `shutdown`: the grace period is over. */
    readonly reason: 'expired' | 'taken' | 'shutdown',
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

/** Code that relies on being called under a lock was called without it. */
export class LockNotHeldError extends LockError {
  readonly code = 'LOCK_NOT_HELD';
}

/** The store could not do what was asked. `cause` is the client's own error. */
export class LockStoreError extends LockError {
  readonly code = 'LOCK_STORE';

  constructor(
    message: string,
    key: string | undefined,
    /**
     * `unreachable`: it could not be asked. `unknown`: it was asked and did not answer, so it may or may not have acted.
     * `unready`: it answered "not now". `refused`: it answered "no", and will again.
     */
    readonly reason: 'unreachable' | 'unknown' | 'unready' | 'refused',
    options?: ErrorOptions,
  ) {
    super(message, key, options);
  }
}

/** No key can be made of what the caller gave. */
export class LockKeyError extends LockError {
  readonly code = 'LOCK_KEY';
}

/** What is asked for would wait for itself: for a key of the same flow, or for flows of this process that wait for it. */
export class LockDeadlockError extends LockError {
  readonly code = 'LOCK_DEADLOCK';

  constructor(
    message: string,
    key: string,
    /** The keys in a circle: the one asked for, the one that its holder waits for, and so on. */
    readonly path: readonly string[],
  ) {
    super(message, key);
  }
}

/** The application is closing: nothing is acquired any more. */
export class LockShutdownError extends LockError {
  readonly code = 'LOCK_SHUTDOWN';
}

/** A mistake in the program: options that contradict each other, a template with unknown names, a missing module. */
export class LockConfigurationError extends LockError {
  readonly code = 'LOCK_CONFIGURATION';

  constructor(message: string, options?: ErrorOptions) {
    super(message, undefined, options);
  }
}

/** True for errors of this package, also of another copy or build of it. */
export function isLockError(error: unknown): error is LockError {
  return (
    error instanceof Error && 'code' in error && String(error.code).startsWith('LOCK_') && 'key' in error
  );
}
