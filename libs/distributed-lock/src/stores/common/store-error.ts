import { LockStoreError } from '../../port/lock.errors.js';

const OUTCOME = {
  unknown: 'did not answer',
  unready: 'is not ready',
  refused: 'refused',
  unreachable: 'could not be reached',
} as const;

/** @param server the name of the back end for messages: `PostgreSQL` */
export function storeError(
  server: string,
  { reason, detail }: { readonly reason: keyof typeof OUTCOME; readonly detail: string },
  key: string | undefined,
  cause?: unknown,
): LockStoreError {
  return new LockStoreError(`${server} ${OUTCOME[reason]}: ${detail}`, key, reason, { cause });
}
