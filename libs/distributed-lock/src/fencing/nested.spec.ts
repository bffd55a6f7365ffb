import { describe, expect, it } from '@jest/globals';
import { failureOf } from '../../../../test/support/lock-services.js';
import { LockConfigurationError, LockNotHeldError } from '../port/lock.errors.js';
import { TestLocks } from '../testing/test-locks.js';
import { fencingHeaders } from './fencing-headers.js';
import { heldUntilCommit, type SqlQuery } from './held-until-commit.js';
import type { Lock } from '../lock/lock.js';

const REFUSE = { nested: 'refuse' } as const;
const neverAsked: SqlQuery = () => {
  throw new Error('The database was asked.');
};

describe("nested: 'refuse'", () => {
  const uses: readonly [string, (lock: Lock) => Promise<unknown>][] = [
    ['heldUntilCommit', (lock) => heldUntilCommit(neverAsked, lock, REFUSE)],
    ['fencingHeaders', async (lock) => fencingHeaders(lock, REFUSE)],
  ];

  it.each(uses)('of %s refuses each of two calls that share a lock', async (_name, use) => {
    await using locks = new TestLocks();
    await locks.withLock(['a', 'b'], (outer) =>
      locks.withLock('b', async (inner) => {
        expect(await failureOf(use(inner))).toBeInstanceOf(LockNotHeldError);
        expect(await failureOf(use(outer))).toBeInstanceOf(LockNotHeldError);
      }),
    );
  });

  it('lets a call pass that has its lock alone, also when a nested one has ended', async () => {
    await using locks = new TestLocks();
    await locks.withLock('a', async (outer) => {
      await locks.withLock('a', () => undefined);
      expect(fencingHeaders(outer, REFUSE)).toMatchObject({ 'fencing-key': 'a' });
      await expect(heldUntilCommit(neverAsked, outer, REFUSE)).rejects.toThrow('The database was asked.');
    });
  });

  it('that is another word is refused', async () => {
    await using locks = new TestLocks();
    await using lock = await locks.acquire('a');
    expect(() => fencingHeaders(lock, { nested: true as never })).toThrow(LockConfigurationError);
  });
});
