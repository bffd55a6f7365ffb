import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  memoryStore,
  type CallOptions,
  type Keys,
  type LockService,
  type LockStoreFactory,
} from 'nestjs-distributed-lock';
import { quorumStore } from 'nestjs-distributed-lock/quorum';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { closeServices, failureOf, openServiceOn } from '../support/lock-services.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as (options?: { type: 'minor' }) => void;

type Call = (locks: LockService, key: string) => Promise<unknown>;

const CALLS = 256;
const AT_ONCE = 16;
/** Garbage that all calls together may leave by chance. An object that is kept for each call weighs some 300 B with its key. */
const LIMIT_BYTES = 60_000;
/** The same for the names of 2048 keys, which a store keeps in maps that grow in steps. */
const LIMIT_OF_NAMES_BYTES = 400_000;
/** What each lock may leave until the next full collection. If one old object keeps all later ones, it is some 5400 B. */
const LIMIT_UNTIL_FULL_COLLECTION_BYTES = 3000;

/** The ways in which a call may begin and end. */
const WAYS: Readonly<Record<string, Call>> = {
  'is served': (locks, key) => run(locks, key),
  'has a fixed lease': (locks, key) => run(locks, key, { leaseMs: 1000 }),
  'is kept for a time': (locks, key) => run(locks, key, { holdAtLeastMs: 10 }),
  'is kept out of a fixed lease': (locks, key) => run(locks, key, { holdAtLeastMs: 10, leaseMs: 1000 }),
  'is fair': (locks, key) => run(locks, key, { fair: true }),
  reads: (locks, key) => run(locks, key, { mode: 'shared' }),
  'takes two keys': (locks, key) => run(locks, [key, `${key}:2`]),
  'listens for the loss of two keys': (locks, key) =>
    locks.withLock([key, `${key}:2`], ({ signal }) =>
      signal.addEventListener('abort', () => expect(signal.reason).toBeDefined()),
    ),
  'is refused': (locks, key) => locks.withLock(key, () => refused(locks, key)),
  'is refused one of two keys': (locks, key) =>
    locks.withLock(key, () => refused(locks, [`${key}:free`, key])),
  'gives up waiting': (locks, key) =>
    locks.withLock(key, () => refused(locks, key, { waitMs: 2, fair: true })),
  'is aborted': (locks, key) => locks.withLock(key, () => abort(locks, key)),
  'loses its lock': async (locks, key) => {
    const lock = await locks.acquire(key);
    await locks.forceRelease(key);
    await lock.release();
  },
};

function run(locks: LockService, key: Keys, options: CallOptions = {}): Promise<void> {
  return locks.withLock(key, options, () => undefined);
}

/** In a flow of its own: a nested call would share the lock. */
async function refused(locks: LockService, key: Keys, options: CallOptions = {}): Promise<void> {
  const other = services.get(locks) as LockService;
  expect(await other.tryAcquire(key, options)).toBeNull();
}

async function abort(locks: LockService, key: string): Promise<void> {
  const caller = new AbortController();
  const asked = (services.get(locks) as LockService).acquire(key, { signal: caller.signal });
  caller.abort();
  expect(await failureOf(asked)).toBe(caller.signal.reason);
}

/** Each service with another one of the same store. */
const services = new WeakMap<LockService, LockService>();

/** So many calls, some of them at once. */
async function callWith(count: number, call: (i: number) => Promise<unknown>): Promise<void> {
  for (let done = 0; done < count; done += AT_ONCE) {
    await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => call(done + i)));
  }
}

/** @param quietMs leaves timers and replies of the calls their time. On a busy machine they come late. */
async function heapAfter(calls: () => Promise<void>, quietMs = 50): Promise<number> {
  await calls();
  await new Promise((resolve) => setTimeout(resolve, quietMs));
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

const quorum = () => quorumStore([memoryStore(), memoryStore(), memoryStore()]);

describe.each<[where: string, makeStore: () => LockStoreFactory]>([
  ['on Redis', () => redisStore(process.env['REDIS_URL'] as string)],
  ['on a quorum', quorum],
])('after hundreds of calls the heap is as large as before, %s, when each', (_, makeStore) => {
  let locks: LockService;
  let before: number;
  const callMany = (call: Call) => callWith(CALLS, (i) => call(locks, `leak:${i}`));
  beforeAll(async () => {
    const store = makeStore();
    locks = openServiceOn(store);
    services.set(locks, openServiceOn(store));
    before = await heapAfter(() => callMany(run));
  }, 60_000);
  afterAll(closeServices);

  it.each(Object.entries(WAYS))(
    '%s',
    async (_way, call) => {
      let growth = Infinity;
      // The first calls of a kind fill caches, such as the names of their keys. A leak grows in each round.
      for (let round = 1; round <= 10 && growth >= LIMIT_BYTES; round++) {
        const after = await heapAfter(() => callMany(call), 50 * round);
        growth = after - before;
        before = after;
      }
      expect(growth).toBeLessThan(LIMIT_BYTES);
    },
    60_000,
  );
});

describe('keys that were never used before', () => {
  afterEach(closeServices);

  it('leave no more on Redis than the names of 2048 keys', async () => {
    const locks = openServiceOn(redisStore(process.env['REDIS_URL'] as string));
    let keys = 0;
    const useNewKeys = () => callWith(2048, () => run(locks, `leak:new:${++keys}`));
    // The store forgets all names when it has 2048, so after as many more keys it has as many names as before.
    await useNewKeys();
    const before = await heapAfter(useNewKeys);
    expect((await heapAfter(useNewKeys)) - before).toBeLessThan(LIMIT_OF_NAMES_BYTES);
  }, 60_000);
});

describe('what a lock leaves behind', () => {
  afterEach(closeServices);

  it('is collected with the young objects: an old one does not keep it until the next full collection', async () => {
    const locks = openServiceOn(redisStore(process.env['REDIS_URL'] as string));
    const collectAtWork = (i: number) => () => {
      if (i % AT_ONCE === 0) collectGarbage({ type: 'minor' });
    };
    const callMany = (count: number) =>
      callWith(count, (i) => locks.withLock(`leak:${i % AT_ONCE}`, collectAtWork(i)));
    const before = await heapAfter(() => callMany(2000));
    await callMany(5000);
    collectGarbage({ type: 'minor' });
    collectGarbage({ type: 'minor' });
    const growth = process.memoryUsage().heapUsed - before;
    expect(growth / 5000).toBeLessThan(LIMIT_UNTIL_FULL_COLLECTION_BYTES);
  }, 60_000);
});
