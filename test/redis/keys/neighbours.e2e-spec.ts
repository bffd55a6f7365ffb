import { beforeEach, describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { permitsKey } from '../../../libs/distributed-lock/src/redis/keys.js';
import { ownRedis } from '../../support/own-redis.js';
import { failureOf } from '../../support/lock-services.js';
import { until } from '#until';

const redis = ownRedis('neighbours');
/** A name without braces. */
let x: string;
/** The same name, in braces as a whole. */
let braced: string;

beforeEach(() => {
  x = redis.key;
  braced = `{${x}}`;
});
const { open } = redis;

// That their keys are apart: names.e2e-spec.ts. Which script uses which keys: protocol/lua-heads.e2e-spec.ts. That their
// waiters are, who hear of each other's releases: test/interop.
describe('a name, and the same name in braces', () => {
  it.each([
    ['readers of one do not count for the other', { mode: 'shared' as const }],
    ['permits of one, and a lock of the other', { permits: 2 }],
  ])('%s', async (_what, options) => {
    const locks = open();
    const readers = await locks.acquire(x, options);
    const writer = await open().acquire(braced, { mode: 'exclusive', waitMs: 0 });
    expect((await locks.inspect(x))?.holders).toHaveLength(1);
    expect((await locks.inspect(braced))?.mode).toBe('exclusive');
    expect(await locks.forceRelease(braced)).toBe('released');
    readers.assertHeld();
    expect(await readers.release()).toBe('released');
    await writer.release().catch(() => undefined);
  });

  it('have permits one after the other: Redisson keeps both in one set, so that the second is refused and told why', async () => {
    const [one, two] = [open(), open()];
    const mine = await one.acquire(x, { permits: 2 });
    const failure = await failureOf(two.acquire(braced, { permits: 2 }));
    expect(failure).toMatchObject({ code: 'LOCK_STORE', reason: 'refused' });
    expect(String(failure)).toContain(`"${braced}" are kept in "${braced}:timeout"`);
    expect(await two.inspect(braced)).toBeNull();
    expect(await two.forceRelease(braced)).toBe('not held');
    expect(await mine.release()).toBe('released');
    const theirs = await two.acquire(braced, { permits: 2 });
    expect(await failureOf(one.acquire(x, { permits: 2 }))).toMatchObject({ reason: 'refused' });
    expect((await two.inspect(braced))?.mode).toBe('permits');
    await theirs.release();
    expect(await redis.eyes.client.exists(x, braced, permitsKey(x))).toBe(0);
  });

  it('grow in one counter of Java where tokens are shared, and none of them lowers it', async () => {
    const [one, two] = [open({ sharedTokens: true }), open({ sharedTokens: true })];
    const tokens: number[] = [];
    for (let i = 0; i < 10; i++) {
      const first = await one.acquire(x);
      tokens.push(await two.withLock(braced, ({ fencingToken }) => fencingToken));
      await first.release();
      tokens.push(await redis.eyes.client.incr(`redisson_lock_token:${braced}`));
    }
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
    await redis.eyes.client.del(`redisson_lock_token:${braced}`);
  });
});

describe('a lock that is named as the permits of another would be', () => {
  let timeout: string;
  let locks: LockService;

  beforeEach(() => {
    timeout = `${braced}:timeout`;
    locks = open();
  });

  it('is not taken, told or deleted as those permits', async () => {
    const lock = await locks.acquire(timeout);
    for (const name of [x, braced]) {
      const holder = await locks.acquire(name);
      expect((await locks.inspect(name))?.mode).toBe('exclusive');
      expect(await locks.forceRelease(name)).toBe('released');
      expect(await locks.forceRelease(name)).toBe('not held');
      await holder.release().catch(() => undefined);
      expect(await locks.inspect(name)).toBeNull();
    }
    lock.assertHeld();
    expect((await locks.inspect(timeout))?.holders).toHaveLength(1);
    expect(await lock.release()).toBe('released');
  });

  it('and those permits: whichever comes second is refused, and told where the other is', async () => {
    const lock = await locks.acquire(timeout);
    const failure = await failureOf(locks.acquire(x, { permits: 2 }));
    expect(failure).toMatchObject({ code: 'LOCK_STORE', reason: 'refused' });
    expect(String(failure)).toContain(`"${timeout}" is a hash in Redis, where the lock "${x}"`);
    expect(await lock.release()).toBe('released');
    const permit = await locks.acquire(x, { permits: 2 });
    const refused = await failureOf(locks.acquire(timeout));
    expect(String(refused)).toContain(`"${timeout}" is a zset in Redis, not a lock`);
    await failureOf(locks.forceRelease(timeout));
    permit.assertHeld();
    expect(await permit.release()).toBe('released');
  });
});

describe('a name that is a part of another lock', () => {
  it.each([
    'nest_lock_queue:{x}',
    'nest_lock_meta:{x}',
    'nest_lock_token:{x}:{x}',
    'nest_lock_shared_token:{x}',
    'nest_lock_holders:{x}',
    'nest_lock_fence:{x}',
    'nest_lock_guard:x:',
    'redisson_lock_token:{x}',
    'redisson_lock_queue:{x}',
    'redisson_lock_timeout:{x}',
    'redisson_unlock_latch:{x}:0123',
    '{x}:b2b1a0d2-7c1f-4a8e-9d3a-000000000001:1:rwlock_timeout:1',
  ])('is refused before the server is asked: %s', async (name) => {
    const locks = open();
    for (const refused of [
      locks.acquire(name),
      locks.acquire(name, { permits: 1 }),
      locks.acquire([x, name]),
      locks.inspect(name),
      locks.forceRelease(name),
    ])
      expect(await failureOf(refused)).toMatchObject({ code: 'LOCK_KEY' });
    await until(async () => (await redis.eyes.client.exists(name, x)) === 0);
  });

  it.each([
    'nest_lock_',
    'my:nest_lock_queue:{x}',
    'nest_lock_queues:{x}',
    'redisson_lock__channel:{x}',
    'nest_lock_notify:x',
  ])('is not what only looks like one: %s', async (name) => {
    const key = `${name}:${x}`;
    expect(await open().withLock(key, () => 'done')).toBe('done');
  });
});
