import { storeError, type StoreFailure, textOf } from '../connection/connection-errors.js';
import { LockConfigurationError, LockStoreError } from '../port/lock.errors.js';
import { ConnectionLostError, RequestTooLongError } from './client/connection.js';
import { ANY_VERSION, CODE, ZookeeperRefusalError } from './client/requests.js';
import { NotConnectedError, SessionEndedError } from './client/session.js';

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

export function sessionOverError(key: string | undefined, cause?: unknown): LockStoreError {
  const detail = 'the session of this client is over, and what it held is lost. Try again';
  return storeError('ZooKeeper', { reason: 'unready', detail }, { key, cause });
}

export function isCode(error: unknown, code: number): boolean {
  return error instanceof ZookeeperRefusalError && error.code === code;
}

function reasonOf(error: unknown): LockStoreError['reason'] {
  if (error instanceof ConnectionLostError) return 'unknown';
  if (error instanceof NotConnectedError) return 'unreachable';
  if (error instanceof SessionEndedError) return 'unready';
  if (error instanceof RequestTooLongError || error instanceof NoVersionLeftError) return 'refused';
  if (error instanceof LockConfigurationError) return 'refused';
  if (error instanceof ZookeeperRefusalError) return REFUSED.includes(error.code) ? 'refused' : 'unready';
  return 'unknown';
}

/**
 * The version of a row whose znode was just made. A row has one more than its znode, because 0 has other meanings in `notesRead`
 * and in messages.
 */
export const FIRST_VERSION = 1;
/**
 * For how long, in ms, a client relies on a version that it has read. A znode that was deleted and made again counts its versions
 * from the start. So the sweeper deletes no document that was written within twice this time.
 */
export const BELIEVED_MS = 5 * 60_000;
/** After this number, the largest of 32 bits, the version of a znode goes on with the least. */
const LARGEST = 2 ** 31 - 1;

/** A znode was written so often that its next version would be the one that stands for any version. */
class NoVersionLeftError extends Error {
  constructor(path: string) {
    super(
      `the versions of the znode ${path} are used up after ${2 ** 32 - 2} writes. Use another key, or delete the znode while nobody holds the lock or waits for it`,
    );
  }
}

export function znodeVersionOf(version: number): number {
  return version - FIRST_VERSION;
}

/**
 * The version that the znode must have for the write of a document to succeed.
 *
 * @throws NoVersionLeftError if that is the last version, or the number that stands for any version
 */
export function conditionOf(path: string, version: number): number {
  const condition = znodeVersionOf(version);
  if (condition === ANY_VERSION || condition === ANY_VERSION - 1) throw new NoVersionLeftError(path);
  return condition;
}

/** The version of a document after it is written. */
export function versionAfter(version: number | undefined): number {
  if (version === undefined) return FIRST_VERSION;
  const before = znodeVersionOf(version);
  return (before === LARGEST ? -LARGEST - 1 : before + 1) + FIRST_VERSION;
}
