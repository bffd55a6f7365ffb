import { LockError } from '../port/lock.errors.js';

/**
 * The row of the lock does not say that this grant holds, so the transaction must be rolled back.
 *
 * Its code is `LOCK_LOST`, so that filters and callers treat it as any other loss.
 */
export class CommitRefusedError extends LockError {
  readonly code = 'LOCK_LOST';

  constructor(
    key: string,
    /** The token of the lock under which the transaction ran. */
    readonly tokenOffered: number,
    reason: string,
  ) {
    super(
      `Refused the commit under "${key}" with token ${tokenOffered}: ${reason}. Roll the transaction back, acquire the lock again and start from reading.`,
      key,
    );
  }
}
