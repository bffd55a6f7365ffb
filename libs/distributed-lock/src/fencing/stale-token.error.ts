import { LockError } from '../port/lock.errors.js';

/**
 * The guarded resource has seen a larger fencing token: the holder with this token has lost its lock, and may not know
 * it yet. Nothing was written.
 *
 * Its code is `LOCK_LOST`, so that filters and callers treat it as any other loss. `tokenSeen` tells it apart, also
 * between two builds of this package.
 */
export class StaleTokenError extends LockError {
  readonly code = 'LOCK_LOST';

  constructor(
    key: string,
    /** The token of the refused write. */
    readonly tokenOffered: number,
    /** The larger one, which the resource has seen. */
    readonly tokenSeen: number,
  ) {
    super(
      `Refused a write under "${key}" with token ${tokenOffered}: token ${tokenSeen} has been seen, so the lock was lost and another owner had it since. Nothing was written; acquire the lock again and start from reading.`,
      key,
    );
  }
}
