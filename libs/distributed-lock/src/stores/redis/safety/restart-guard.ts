import { LockStoreError } from '../../../port/lock.errors.js';

/**
 * Grants nothing on a server that has lost its data until every lease that it has forgotten is over: the "delayed restart" of
 * Redlock's description (redis.io, Distributed locks), without an operator. The acquire scripts check a mark.
 */
export interface RestartGuard {
  /** The key of the mark. A server that has lost its data has lost the mark, too. */
  readonly mark: string;
  readonly longestLeaseMs: number;
}

export function unready(leftMs: number, { longestLeaseMs }: RestartGuard, key: string): LockStoreError {
  return new LockStoreError(
    `Redis is not ready: it came back without its data, and leases that it has forgotten may run for another ${leftMs} ms (restartGuardMs is ${longestLeaseMs}).`,
    key,
    'unready',
  );
}
