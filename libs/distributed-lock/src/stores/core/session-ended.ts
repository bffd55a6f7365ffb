import { LockStoreError } from '../../port/lock.errors.js';

/** @param reason `unready` for a write that was not sent; otherwise it may have been executed before the end */
export function sessionEnded(key: string, reason: 'unready' | 'unknown'): LockStoreError {
  const message = `The session of this client ended while it used the lock "${key}". What was held is lost. Try again.`;
  return new LockStoreError(message, key, reason);
}
