import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { LockKeyError } from 'nestjs-distributed-lock';
import { startRedisServer } from '#redis-server';
import {
  checkReserved,
  checkSlot,
  redisKeys,
  permitsKey,
} from '../../../libs/distributed-lock/src/redis/keys.js';
import { oddName } from '../../support/odd-names.js';
import { ownServer } from '../../support/own-server.js';

const NUM_RUNS = 1500;
/** Each asks the server for a dozen slots. */
const SERVER_RUNS = 400;
const KINDS = ['lock', 'exclusive', 'shared', 'permits'] as const;

/** What belongs to a lock alone: everything but Redisson's channel. */
function ownKeys(name: string): string[] {
  const [lock, line, info, token] = redisKeys(name, 'lock');
  const [, , , sharedToken] = redisKeys(name, 'lock', true);
  // As holders.lua makes it.
  const holders = `nest_lock_holders${info.slice('nest_lock_meta'.length)}`;
  return [lock, line, info, token, sharedToken, holders];
}

const passes = (check: (name: string) => void, name: string): boolean => {
  try {
    check(name);
    return true;
  } catch (error) {
    if (error instanceof LockKeyError) return false;
    throw error;
  }
};

/** Half of them are made of a few pieces, so that one is often a part of another or of its keys. */
const name = fc.oneof(oddName('x'), fc.string({ minLength: 1, maxLength: 12, unit: 'binary' }));

/** Two names, of which the second mostly follows from the first: by braces, an ending, or as one of its keys. */
const twoNames = name.chain((one) => {
  const inner = one.replaceAll(/[{}]/g, '');
  const related = [
    `{${one}}`,
    inner,
    `{${inner}}`,
    `${inner}}:{${inner}`,
    `${one}:timeout`,
    `{${one}}:timeout`,
  ];
  const ofKeys = ownKeys(one).map((key) => key.replace(/^nest_lock_\w+:/, ''));
  return fc.tuple(fc.constant(one), fc.oneof(name, fc.constantFrom(...related, ...ofKeys, permitsKey(one))));
});

describe('the keys of a lock', () => {
  it('are of no other lock, whatever the two are called', () => {
    fc.assert(
      fc.property(twoNames, ([one, other]) => {
        fc.pre(one !== other && other !== '' && passes(checkReserved, one) && passes(checkReserved, other));
        const theirs = new Set(ownKeys(other));
        expect(ownKeys(one).filter((key) => theirs.has(key))).toEqual([]);
      }),
      { numRuns: NUM_RUNS },
    );
  });

  it('have names of their own within the lock, and each kind of claim has the same ones', () => {
    fc.assert(
      fc.property(name, (one) => {
        fc.pre(passes(checkReserved, one));
        expect(new Set(ownKeys(one)).size).toBe(ownKeys(one).length);
        const [first, ...others] = KINDS.map((kind) => redisKeys(one, kind).slice(0, 4));
        for (const keys of others) expect(keys).toEqual(first);
      }),
      { numRuns: NUM_RUNS },
    );
  });

  it('are those of earlier versions for a name without a closing brace', () => {
    expect(redisKeys('order:42', 'lock')).toEqual([
      'order:42',
      'nest_lock_queue:{order:42}',
      'nest_lock_meta:{order:42}',
      'nest_lock_token:{order:42}',
      'redisson_lock__channel:{order:42}',
    ]);
    expect(redisKeys('{acct}:7', 'lock')).toEqual([
      '{acct}:7',
      'nest_lock_queue:{acct}:{acct}:7',
      'nest_lock_meta:{acct}:{acct}:7',
      'nest_lock_token:{acct}:{acct}:7',
      'redisson_lock__channel:{acct}:7',
    ]);
  });

  describe('as a cluster counts', () => {
    const server = ownServer(() => startRedisServer({ args: ['--cluster-enabled', 'yes'] }));
    let redis: Redis;

    beforeAll(() => {
      redis = new Redis(server.url);
    });
    afterAll(() => redis.disconnect());

    const slotsOf = async (keys: readonly string[]) => {
      const slots = await Promise.all(keys.map((key) => redis.cluster('KEYSLOT', key)));
      return [...new Set(slots)];
    };

    it('lie in one slot with all that Redisson has for it, or the name is refused there', async () => {
      let refused = 0;
      let taken = 0;
      await fc.assert(
        fc.asyncProperty(name, async (one) => {
          if (!passes(checkSlot, one)) return void refused++;
          taken += 1;
          const channels = KINDS.map((kind) => redisKeys(one, kind)[4]);
          const reader = `${permitsKey(one).slice(0, -'timeout'.length)}owner:1:rwlock_timeout:1`;
          expect(await slotsOf([...ownKeys(one), ...channels, permitsKey(one), reader])).toHaveLength(1);
        }),
        { numRuns: SERVER_RUNS },
      );
      expect(Math.min(refused, taken)).toBeGreaterThan(0);
    }, 60_000);

    it('lie there for every name, but for one with a closing brace and no hash tag', async () => {
      await fc.assert(
        fc.asyncProperty(name, async (one) => {
          fc.pre(!one.includes('}') || passes(checkSlot, one));
          expect(await slotsOf(ownKeys(one))).toHaveLength(1);
        }),
        { numRuns: SERVER_RUNS },
      );
    }, 60_000);
  });
});
