import { LockStoreError } from '../../../port/lock.errors.js';

const OUTCOME = {
  unknown: 'did not answer',
  unready: 'is not ready',
  refused: 'refused',
  unreachable: 'could not be reached',
} as const;

/** @param server the name of the back end for messages: `PostgreSQL` */
export function storeError(
  server: string,
  failure: StoreFailure,
  key: string | undefined,
  cause?: unknown,
): LockStoreError {
  const { reason, detail, isAnswered = false } = failure;
  const outcome = OUTCOME[isAnswered ? 'unready' : reason];
  return new LockStoreError(`${server} ${outcome}: ${detail}`, key, reason, { cause });
}

/** What an error of a server or of its client means for the request that failed. */
export interface StoreFailure {
  /**
   * `unreachable`: it was not sent. `unready` and `refused`: it was not executed. `unknown`: it may have been, or may still
   * be.
   */
  readonly reason: keyof typeof OUTCOME;
  /** What happened and what to do, without values of the connection. */
  readonly detail: string;
  /** The server has answered an `unknown` request, so that it is not executed later. */
  readonly isAnswered?: boolean;
}
