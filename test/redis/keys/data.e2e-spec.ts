import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { CallOptions, LockService } from 'nestjs-distributed-lock';
import { redisKeys, permitsKey } from '../../../libs/distributed-lock/src/redis/keys.js';
import { ownRedis } from '../../support/own-redis.js';
import { failureOf } from '../../support/lock-services.js';

const JAVA = 'b2b1a0d2-7c1f-4a8e-9d3a-000000000001:1';
/** Longer than a test may take, so that a call that waits fails its test. */
const FOREVER_MS = 3_600_000;

type Fields = Readonly<Record<string, string | number>>;

/** What an application may keep in a hash. Some of it looks like a part of a lock. */
const DATA: readonly (readonly [string, Fields])[] = [
  ['goods', { name: 'chair', stock: 3 }],
  ['a mode and a time', { mode: 'read', changedAt: 1_760_000_000_000 }],
  ['an owner among other fields', { [JAVA]: 1, stock: 3 }],
  ['something like an owner', { 'user:1': 1 }],
  ['an empty name', { '': 1 }],
];

const WAYS: readonly (readonly [string, CallOptions])[] = [
  ['alone', {}],
  ['to write', { mode: 'exclusive' }],
  ['to read', { mode: 'shared' }],
  ['by permits', { permits: 5 }],
];
const redis = ownRedis('data');
let locks: LockService;
let key: string;

beforeEach(() => {
  locks = redis.open({ waitMs: 0, commandTimeoutMs: 5000 });
  key = redis.key;
});

const untouched = async () => [await redis.eyes.client.hgetall(key), await redis.eyes.client.pttl(key)];
/** All that anybody can ask for a key. */
const everything = (waitMs = 200) => [
  ...WAYS.map(
    ([, options]) =>
      () =>
        locks.acquire(key, options),
  ),
  () => locks.acquire(key, { waitMs }),
  () => locks.acquire([key, `${key}:other`]),
  () => locks.inspect(key),
  () => locks.forceRelease(key),
];

const OWNERS = [JAVA, `${JAVA}7`, '11111111-2222-8333-9444-555555555555:12'];
const anyHash: fc.Arbitrary<Fields> = fc
  .uniqueArray(
    fc.tuple(
      fc.constantFrom(...OWNERS, ...OWNERS.map((owner) => `${owner}:write`), 'stock', `${JAVA}:x`),
      fc.constantFrom('1', '1', '2', '40', '2000000', '0', '-1', 'read', 'chair'),
    ),
    { maxLength: 3, selector: ([field]) => field },
  )
  .chain((fields) => fc.constantFrom(fields, [...fields, ['mode', 'read']], [...fields, ['mode', 'write']]))
  .filter((fields) => fields.length > 0)
  .map((fields) => Object.fromEntries(fields) as Fields);

/** What Redisson and we write: an owner alone, a writer with what it reads, or readers. */
function isLock({ mode, ...fields }: Fields): boolean {
  const isWriter = (field: string) => field.endsWith(':write');
  const owners = Object.keys(fields);
  const areOwners = owners.every((field) => OWNERS.includes(field.replace(/:write$/, '')));
  if (!areOwners || owners.length === 0 || !Object.values(fields).every((count) => Number(count) >= 1))
    return false;
  if (mode === 'write') return true;
  return !owners.some(isWriter) && (mode === 'read' || (mode === undefined && owners.length === 1));
}

describe('a hash with the name of a lock', () => {
  it('of any fields is a lock or data: as data it is refused, whatever is asked, and left as it is', async () => {
    const seen = { lock: 0, data: 0 };
    const property = fc.asyncProperty(
      anyHash,
      fc.nat({ max: everything().length - 1 }),
      async (fields, which) => {
        const kind = isLock(fields) ? 'lock' : 'data';
        seen[kind] += 1;
        // One name is either a lock or permits.
        const isToBeRefused = kind === 'data' || which === WAYS.findIndex(([way]) => way === 'by permits');
        // The process may hold the key of the run before.
        key = `data:${randomUUID()}`;
        await redis.eyes.client.hset(key, fields);
        const before = await untouched();
        const failure = (await failureOf(everything()[which]!())) as { readonly reason?: string };
        const isRefused = failure.reason === 'refused';
        const after = await untouched();
        await redis.eyes.client.del(key);
        expect(isRefused).toBe(isToBeRefused);
        expect(isRefused ? after : before).toEqual(before);
      },
    );
    await fc.assert(property, { numRuns: 300 });
    expect(Math.min(seen.lock, seen.data)).toBeGreaterThan(5);
  }, 60_000);
});

describe('a hash of the application with the name of a lock', () => {
  it.each(DATA)('is refused as what it is, and left as it is: %s', async (_what, fields) => {
    await redis.eyes.client.hset(key, fields);
    const before = await untouched();
    for (const ask of everything(FOREVER_MS)) {
      const failure = await failureOf(ask());
      expect(failure).toMatchObject({ code: 'LOCK_STORE', reason: 'refused' });
      expect(String(failure)).toContain(`"${key}" is a hash in Redis, not a lock of this kind`);
      for (const field of Object.keys(fields).filter((it) => it.length > 4))
        expect(String(failure)).not.toContain(field);
    }
    expect(await untouched()).toEqual(before);
    const [, line, info] = redisKeys(key, 'lock');
    expect(await redis.eyes.client.exists(line, info, permitsKey(key), `${key}:other`)).toBe(0);
  });

  it('is not read as a whole where it is large', async () => {
    for (let i = 0; i < 50; i++) {
      const fields = Array.from({ length: 10_000 }, (_, n) => [
        `b2b1a0d2-7c1f-4a8e-9d3a-000000000001:${i}${n}`,
        '1',
      ]);
      await redis.eyes.client.hset(key, Object.fromEntries(fields) as Fields);
    }
    await redis.eyes.client.hset(key, 'mode', 'read');
    await redis.eyes.client.config('RESETSTAT');
    for (const ask of everything()) expect(await failureOf(ask())).toMatchObject({ reason: 'refused' });
    const stats = await redis.eyes.client.info('commandstats');
    const [, most = ''] = /cmdstat_(?:hgetall|hkeys):calls=(\d+)/.exec(stats) ?? [];
    expect(most).toBe('');
    await redis.eyes.client.unlink(key);
  }, 60_000);

  it.each(WAYS)(
    'that replaces a lock ends it, and is not touched by what its holder does then: held %s',
    async (_way, options) => {
      const service = redis.open({ watchdogTimeoutMs: 900, commandTimeoutMs: 300 });
      const lock = await service.acquire(key, options);
      const lost = new Promise((resolve) => lock.signal.addEventListener('abort', resolve, { once: true }));
      // In one step: the client renews as soon as it is subscribed, and would find the key free in between.
      await redis.eyes.client.multi().del(key).hset(key, { mode: 'read', stock: 3 }).exec();
      await lost;
      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST' });
      expect(await lock.release()).toBe('lost');
      expect(await untouched()).toEqual([{ mode: 'read', stock: '3' }, -1]);
    },
  );

  it.each(WAYS.slice(0, 3))(
    'that is written into a lock is not deleted with it: held %s',
    async (_way, options) => {
      const holder = await locks.acquire(key, options);
      await redis.eyes.client.hset(key, { stock: 3, visits: 2_000_000 });
      expect(await failureOf(locks.forceRelease(key))).toMatchObject({ reason: 'refused' });
      expect(await failureOf(redis.open().acquire(key))).toMatchObject({ reason: 'refused' });
      expect(await holder.release()).toBe('released');
      expect(await redis.eyes.client.hmget(key, 'stock', 'visits')).toEqual(['3', '2000000']);
      expect(await redis.eyes.client.hkeys(key)).not.toContain('1');
    },
  );

  it('that is written into a lock survives its downgrade', async () => {
    const holder = await locks.acquire(key, { mode: 'exclusive' });
    await redis.eyes.client.hset(key, { stock: 3 });
    await holder.downgrade();
    expect(await redis.eyes.client.hget(key, 'stock')).toBe('3');
    expect(await holder.release()).toBe('released');
    expect(await redis.eyes.client.hget(key, 'stock')).toBe('3');
  });
});

describe('other data with the name of a lock', () => {
  it.each<[string, () => Promise<unknown>]>([
    ['string', () => redis.eyes.client.set(key, 'chair')],
    ['list', () => redis.eyes.client.rpush(key, 'chair')],
    ['set', () => redis.eyes.client.sadd(key, 'chair')],
    ['zset', () => redis.eyes.client.zadd(key, 1, 'chair')],
    ['stream', () => redis.eyes.client.xadd(key, '*', 'chair', '1')],
  ])('are refused in every way, and left as they are: a %s', async (type, write) => {
    await write();
    const before = await redis.eyes.client.dump(key);
    for (const ask of everything()) {
      const failure = await failureOf(ask());
      expect(failure).toMatchObject({ code: 'LOCK_STORE', reason: 'refused' });
      expect(String(failure)).toContain(`"${key}" is a ${type} in Redis, not a lock of this kind`);
    }
    expect(await redis.eyes.client.dump(key)).toBe(before);
    expect(await redis.eyes.client.pttl(key)).toBe(-1);
  });

  it('hide no other lock from a list, which says what it could not read', async () => {
    const others = redis.open({ keyPrefix: `${key}:` });
    const [replaced, held] = [await others.acquire('1'), await others.acquire('2')];
    const waiting = failureOf(redis.open({ keyPrefix: `${key}:` }).acquire('1', { waitMs: Infinity }));
    await redis.eyes.untilQueued(`${key}:1`, 1);
    await redis.eyes.client.set(`${key}:1`, 'chair');
    const { entries, unreadable } = await others.list();
    expect(entries).toMatchObject([{ key: '2' }]);
    expect(unreadable).toEqual([{ key: '1', message: expect.stringContaining('is a string in Redis') }]);
    await Promise.all([replaced.release(), held.release()]);
    expect(await waiting).toMatchObject({ reason: 'refused' });
  });

  it.each(['string', 'list'])(
    'that replace a lock end it, and its release, which is not repeated until the lease is over: a %s',
    async (type) => {
      for (const [, options] of WAYS) {
        const lock = await locks.acquire(key, options);
        await redis.eyes.client.del(key);
        await (type === 'string'
          ? redis.eyes.client.set(key, 'chair')
          : redis.eyes.client.rpush(key, 'chair'));
        const before = await redis.eyes.client.dump(key);
        // Unknown would be a release that was repeated until the lease was over.
        expect(await lock.release()).not.toBe('unknown');
        expect(await redis.eyes.client.dump(key)).toBe(before);
        await redis.eyes.client.del(key);
      }
    },
    30_000,
  );
});

describe('a lock with as many readers as a script reads', () => {
  it('is a lock all the same: one more waits for one to leave', async () => {
    const readers = Array.from({ length: 9999 }, (_, i) => [`${JAVA}0${i}`, '1']);
    await redis.eyes.client.hset(key, { mode: 'read', ...Object.fromEntries(readers) });
    await redis.eyes.client.pexpire(key, 60_000);
    expect(await failureOf(locks.acquire(key, { mode: 'shared' }))).toMatchObject({
      code: 'LOCK_WAIT_TIMEOUT',
    });
    await redis.eyes.client.hdel(key, `${JAVA}00`);
    const reader = await locks.acquire(key, { mode: 'shared' });
    expect((await locks.inspect(key))?.mode).toBe('shared');
    expect(await reader.release()).toBe('released');
  });
});

describe('a reader of Java with more holds than a script looks at', () => {
  it('keeps writers out for as long as its lock lasts, and holds up nobody else', async () => {
    await redis.eyes.client.hset(key, { mode: 'read', [JAVA]: 2_000_000 });
    await redis.eyes.client.pexpire(key, 60_000);
    await redis.eyes.client.config('RESETSTAT');
    const failure = await failureOf(locks.acquire(key, { mode: 'exclusive' }));
    expect(failure).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT' });
    const stats = await redis.eyes.client.info('commandstats');
    const looks = /cmdstat_pttl:calls=(\d+)/.exec(stats)?.[1] ?? '0';
    expect(Number(looks)).toBeLessThan(100);
    const reader = await locks.acquire(key, { mode: 'shared', leaseMs: 100 });
    expect(await reader.release()).toBe('released');
    expect(await redis.eyes.client.hget(key, JAVA)).toBe('2000000');
    await redis.eyes.client.pexpire(key, 100);
    const writer = await locks.acquire(key, { mode: 'exclusive', waitMs: 5000 });
    expect(await writer.release()).toBe('released');
  });
});
