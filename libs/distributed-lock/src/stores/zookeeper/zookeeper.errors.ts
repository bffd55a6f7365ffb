import { LockConfigurationError, LockStoreError } from '../../port/lock.errors.js';
import { storeError, textOf, type StoreFailure } from '../common/connection/connection-errors.js';
import { CODE, ZookeeperRefusal } from './client/codes.js';
import { ConnectionLost, RequestTooLong } from './client/connection.js';
import { NotConnected, SessionEnded } from './client/session.js';
import { NoVersionLeft } from './znode-version.js';

/** The request can never be executed as it is. */
const REFUSED: readonly number[] = [
  CODE.marshalling,
  CODE.unimplemented,
  CODE.badArguments,
  CODE.noAuth,
  CODE.invalidAcl,
  CODE.authFailed,
  CODE.quotaExceeded,
];

/** The error of a write or a reading, made of the error of the client. */
export function zookeeperError(error: unknown, key: string | undefined): LockStoreError {
  if (error instanceof LockStoreError) return error;
  return storeError('ZooKeeper', zookeeperFailure(error), { key, cause: error });
}

export function zookeeperFailure(error: unknown): StoreFailure {
  return { reason: reasonOf(error), detail: textOf(error) };
}

export function sessionOver(key: string | undefined, cause?: unknown): LockStoreError {
  const detail = 'the session of this client is over, and what it held is lost. Try again';
  return storeError('ZooKeeper', { reason: 'unready', detail }, { key, cause });
}

export function isCode(error: unknown, code: number): boolean {
  return error instanceof ZookeeperRefusal && error.code === code;
}

function reasonOf(error: unknown): LockStoreError['reason'] {
  if (error instanceof ConnectionLost) return 'unknown';
  if (error instanceof NotConnected) return 'unreachable';
  if (error instanceof SessionEnded) return 'unready';
  if (error instanceof RequestTooLong || error instanceof NoVersionLeft) return 'refused';
  if (error instanceof LockConfigurationError) return 'refused';
  if (error instanceof ZookeeperRefusal) return REFUSED.includes(error.code) ? 'refused' : 'unready';
  return 'unknown';
}
