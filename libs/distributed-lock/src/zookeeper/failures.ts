import { storeError, type StoreFailure, textOf } from '../connection/connection-errors.js';
import { LockConfigurationError, LockStoreError } from '../port/lock.errors.js';
import { ConnectionLostError, RequestTooLongError } from './client/connection.js';
import { ANY_VERSION, CODE, ZookeeperRefusalError } from './client/requests.js';
import { NotConnectedError, SessionEndedError } from './client/session.js';

/** Error codes for requests that ZooKeeper would refuse again. */
const REFUSED: readonly number[] = [
  CODE.marshalling,
  CODE.unimplemented,
  CODE.badArguments,
  CODE.noAuth,
  CODE.invalidAcl,
  CODE.authFailed,
  CODE.quotaExceeded,
];

/** Converts an error of the ZooKeeper client into the error of the store. */
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
 * The version of a row whose znode was just created. ZooKeeper starts at 0, so a row has its znode's version + 1: in `notesRead`
 * and in messages 0 means "none".
 */
export const FIRST_VERSION = 1;
/**
 * For how long, in ms, a client may use a version that it has read. A znode that is deleted and created again starts at version
 * 0, so an old version could match a new document. The sweeper therefore deletes a document only if it was not written for twice
 * this time.
 */
export const BELIEVED_MS = 5 * 60_000;
/** The largest version of a znode, 2^31 - 1. The version after it is -2^31. */
const LARGEST = 2 ** 31 - 1;

/**
 * The next version of the znode would be -1, which in a request means "any version". So the znode cannot be written safely any
 * more.
 */
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
 * The version that a write compares with the znode's version. The write fails if they differ.
 *
 * @throws NoVersionLeftError if that is the last version, or -1, which would match any version
 */
export function conditionOf(path: string, version: number): number {
  const condition = znodeVersionOf(version);
  if (condition === ANY_VERSION || condition === ANY_VERSION - 1) throw new NoVersionLeftError(path);
  return condition;
}

/** The version that a document has after a write, given its version before. */
export function versionAfter(version: number | undefined): number {
  if (version === undefined) return FIRST_VERSION;
  const before = znodeVersionOf(version);
  return (before === LARGEST ? -LARGEST - 1 : before + 1) + FIRST_VERSION;
}
