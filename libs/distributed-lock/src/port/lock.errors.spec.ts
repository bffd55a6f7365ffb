import { describe, expect, it } from '@jest/globals';
import { StaleTokenError } from '../fencing/fence.js';
import { CommitRefusedError } from '../fencing/held-until-commit.js';
import {
  isLockError,
  LockConfigurationError,
  LockLostError,
  LockNotHeldError,
  LockWaitTimeoutError,
} from './lock.errors.js';

const timeout = new LockWaitTimeoutError('k', 30, 'holder');
const lost = new LockLostError('k', 40, 'expired', 'no reply');
const stale = new StaleTokenError('k', 1, 2);
const refused = new CommitRefusedError('k', 3, 'another has it');

describe('isLockError', () => {
  it('is true for the errors of this package, and for those of a copy of it', () => {
    const copy = Object.assign(new Error('of a copy'), { code: 'LOCK_SHUTDOWN', key: 'k' });
    const others = [
      new Error('none'),
      Object.assign(new Error('Redis'), { code: 'LOCK_LOST' }),
      'LOCK_LOST',
      undefined,
    ];
    expect([timeout, stale, copy].every((error) => isLockError(error))).toBe(true);
    expect(others.some((error) => isLockError(error))).toBe(false);
    expect(isLockError(copy, 'LOCK_SHUTDOWN')).toBe(true);
  });

  it('narrows to the class of a code', () => {
    const holderOf = (error: unknown): string | undefined =>
      isLockError(error, 'LOCK_WAIT_TIMEOUT') ? error.holder : undefined;
    expect([timeout, lost, new LockNotHeldError('no', 'k'), 'text'].map(holderOf)).toEqual([
      'holder',
      undefined,
      undefined,
      undefined,
    ]);
    const error: unknown = new LockConfigurationError('wrong');
    expect(isLockError(error, 'LOCK_CONFIGURATION') && error.key).toBeUndefined();
  });

  it('tells a lost lock from a refused token by what only one of them has', () => {
    const tell = (error: unknown): unknown => {
      if (!isLockError(error, 'LOCK_LOST')) return 'neither';
      return error.reason ?? ('tokenOffered' in error && [error.tokenOffered, error.tokenSeen]);
    };
    expect([lost, stale, refused, timeout].map(tell)).toEqual(['expired', [1, 2], [3, undefined], 'neither']);
  });

  it('filters a list, where it is called with an index', () => {
    const found: readonly string[] = [new Error('other'), timeout, lost]
      .filter((it) => isLockError(it))
      .map(({ code }) => code);
    const byReference = [new Error('other'), timeout, lost].filter(isLockError);
    expect(found).toEqual(byReference.map((error) => error.code));
    expect(found).toEqual(['LOCK_WAIT_TIMEOUT', 'LOCK_LOST']);
  });
});
