import { LockStoreError } from '../../port/lock.errors.js';

const OUTCOME = {
  unknown: 'did not answer',
  unready: 'is not ready',
  refused: 'refused',
  unreachable: 'could not be reached',
} as const;

/**
 * @param server the name of the back end for messages: `PostgreSQL`
 * @param failure `isAnswered`: the outcome is unknown, although the server has answered
 */
export function storeError(
  server: string,
  failure: { readonly reason: keyof typeof OUTCOME; readonly detail: string; readonly isAnswered?: boolean },
  key: string | undefined,
  cause?: unknown,
): LockStoreError {
  const { reason, detail, isAnswered = false } = failure;
  const outcome = OUTCOME[isAnswered ? 'unready' : reason];
  return new LockStoreError(`${server} ${outcome}: ${detail}`, key, reason, { cause });
}
