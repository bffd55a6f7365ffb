import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
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
const collectGarbage = runInNewContext('gc') as () => void;

const AT_ONCE = 20;
/** Garbage that all calls together may leave by chance. An object that is kept for each call weighs some 300 B with its key. */
const LIMIT_BYTES = 250_000;

/** The ways in which a call may begin and end; each gets a key that was never used before. */
const WAYS: Readonly<Record<string, (locks: LockService, key: string) => Promise<unknown>>> = {
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

async function heapAfter(calls: () => Promise<void>): Promise<number> {
  await calls();
  await new Promise((resolve) => setTimeout(resolve, 50));
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

const quorum = () => quorumStore([memoryStore(), memoryStore(), memoryStore()]);

describe.each<[where: string, makeStore: () => LockStoreFactory, callsAtLeast: number]>([
  ['on Redis', () => redisStore(process.env['REDIS_URL'] as string), 1000],
  ['on a quorum', quorum, 300],
])('after so many calls the heap is as large as before, %s, when each', (_, makeStore, callsAtLeast) => {
  let locks: LockService;
  beforeEach(() => {
    const store = makeStore();
    locks = openServiceOn(store);
    services.set(locks, openServiceOn(store));
  });
  afterEach(closeServices);

  it.each(Object.entries(WAYS))(
    '%s',
    async (way, call) => {
      let keys = 0;
      const calls = async () => {
        for (let done = 0; done < callsAtLeast; done += AT_ONCE) {
          const some = Array.from({ length: AT_ONCE }, () => call(locks, `leak:${way}:${++keys}`));
          await Promise.all(some);
        }
      };
      let before = await heapAfter(calls);
      let growth = Infinity;
      // Caches grow once, so a round that leaves little is enough.
      for (let round = 1; round <= 2 && growth >= LIMIT_BYTES; round++) {
        const after = await heapAfter(calls);
        growth = after - before;
        before = after;
      }
      expect(growth).toBeLessThan(LIMIT_BYTES);
    },
    60_000,
  );
});
