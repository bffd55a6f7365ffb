import { AsyncResource } from 'node:async_hooks';
import { setImmediate as turn } from 'node:timers/promises';
import { Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import { afterEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { OneSlot } from '../../../../../test/support/one-slot.js';
import { failureOf } from '../../../../../test/support/lock-services.js';
import { Locked } from '../../locked/locked.decorator.js';
import { LockDeadlockError, LockWaitTimeoutError } from '../../port/lock.errors.js';
import { memoryStore } from '../../memory/store.js';
import { TestLocks } from '../../testing/test-locks.js';
import { LockService } from '../lock.service.js';
import type { CallOptions, Lock } from '../lock.js';
import type { Keys } from '../request/key-claim.js';

const services: LockService[] = [];
const open = (defaults: CallOptions = {}): LockService => {
  const service = new LockService({ store: memoryStore(), defaults, application: false });
  services.push(service);
  return service;
};
describe('calls in one async context', () => {
  afterEach(async () => {
    await Promise.all(services.splice(0).map((service) => service.close()));
  });

  const ALONE = { reentrant: false } as const;

  describe('reentrant: false', () => {
    const calls: Readonly<
      Record<string, (locks: LockService, keys: Keys, options?: CallOptions) => Promise<unknown>>
    > = {
      withLock: (locks, keys, options = {}) => locks.withLock(keys, options, () => 'shared'),
      acquire: (locks, keys, options) => locks.acquire(keys, options),
      tryAcquire: (locks, keys, options) => locks.tryAcquire(keys, options),
    };

    describe.each(Object.entries(calls))('for %s', (_name, call) => {
      it('refuses a nested call that says so, at once', async () => {
        const locks = open();
        const error = await locks.withLock('stock', () => failureOf(call(locks, 'stock', ALONE)));
        expect(error).toBeInstanceOf(LockDeadlockError);
        expect(error).toMatchObject({ key: 'stock', path: ['stock'] });
        expect(await locks.inspect('stock')).toBeNull();
      });

      it('refuses a nested call when the call around it says so, also inside of lock.run', async () => {
        const locks = open();
        expect(await locks.withLock('stock', ALONE, () => failureOf(call(locks, 'stock')))).toBeInstanceOf(
          LockDeadlockError,
        );
        await using lock = await locks.acquire('stock', ALONE);
        expect(await lock.run(() => failureOf(call(locks, 'stock')))).toBeInstanceOf(LockDeadlockError);
      });

      it('is a default of the service, which a pair of calls may overrule', async () => {
        const locks = open(ALONE);
        expect(await locks.withLock('stock', () => failureOf(call(locks, 'stock')))).toBeInstanceOf(
          LockDeadlockError,
        );
        const both = { reentrant: true };
        await locks.withLock('stock', both, async () => {
          const shared = await call(locks, 'stock', both);
          expect(shared).toBeTruthy();
          if (shared !== 'shared') await (shared as Lock).release();
        });
      });

      it.each<[string, CallOptions]>([
        ['readers', { mode: 'shared' }],
        ['permits', { permits: 2 }],
        ['a fixed lease', { leaseMs: 5000 }],
        ['a takeover', { onBusy: 'takeover', waitMs: 5000 }],
      ])('refuses %s as well', async (_of, options) => {
        const locks = open();
        const nested = (): Promise<unknown> => failureOf(call(locks, 'stock', { ...options, ...ALONE }));
        expect(await locks.withLock('stock', options, nested)).toBeInstanceOf(LockDeadlockError);
      });

      it('refuses several keys before it waits for any of them', async () => {
        const locks = open();
        await using _busy = await locks.acquire('a');
        const nested = (): Promise<unknown> => failureOf(call(locks, ['a', 'stock'], ALONE));
        expect(await locks.withLock('stock', nested)).toBeInstanceOf(LockDeadlockError);
      });
    });

    it('says which two calls met, and what to do', async () => {
      const locks = open();
      const nested = (): Promise<unknown> =>
        failureOf(locks.withLock('stock', { site: 'Report.run', ...ALONE }, () => undefined));
      const error = await locks.withLock('stock', { site: 'Order.pay' }, nested);
      expect(String(error)).toMatch(
        /^LockDeadlockError: "stock" was not acquired by Report\.run: its async context holds the key since \d+ ms, by Order\.pay, and this call has reentrant: false\. .*AsyncResource\.bind\(task\)/,
      );
    });

    it('of @Locked refuses the method of the same key', async () => {
      class Orders {
        @Locked('stock', ALONE)
        async pay(): Promise<unknown> {
          return failureOf(this.book());
        }

        @Locked('stock')
        async book(): Promise<string> {
          return 'shared';
        }
      }
      await using locks = new TestLocks();
      expect(await locks.injectInto(new Orders()).pay()).toBeInstanceOf(LockDeadlockError);
    });

    it('lets other keys nest, and leaves the outer lock as it was', async () => {
      const locks = open(ALONE);
      await locks.withLock('stock', async (lock) => {
        expect(await locks.withLock('other', () => 'nested')).toBe('nested');
        await failureOf(locks.acquire('stock'));
        lock.assertHeld();
        expect(lock.calls).toBe(1);
        expect(locks.assertHeld('stock')).toBe(lock);
      });
    });

    it('that is no boolean is refused', async () => {
      const locks = open();
      const wrong = { reentrant: 'no' } as unknown as CallOptions;
      await expect(locks.acquire('stock', wrong)).rejects.toThrow('reentrant must be true or false');
    });
  });

  /** B's task comes behind A's in the queue, and A awaits its own under the lock. */
  async function meet(
    locks: LockService,
    task: () => Promise<unknown>,
    underLock: () => Promise<unknown> = turn,
  ): Promise<unknown> {
    const queue = new OneSlot();
    let outcome: Promise<unknown> | undefined;
    await locks.withLock('stock', { site: 'A' }, async () => {
      const own = queue.add(() => turn());
      await detachedFrom(() => (outcome = queue.add(task)));
      await own;
      await underLock();
    });
    return outcome;
  }

  /** As another request would call it. */
  const elsewhere = new AsyncResource('elsewhere');
  const detachedFrom = async (work: () => unknown): Promise<void> => {
    elsewhere.runInAsyncScope(() => void work());
  };

  describe('a task that a shared queue starts in the flow of another caller', () => {
    it('shares its lock unless the call says otherwise, and can tell by depth and calls', async () => {
      const locks = open();
      const seen = await meet(locks, () => locks.withLock('stock', ({ depth, calls }) => ({ depth, calls })));
      expect(seen).toEqual({ depth: 1, calls: 2 });
    });

    it('is refused with reentrant: false', async () => {
      const locks = open(ALONE);
      expect(await meet(locks, () => failureOf(locks.acquire('stock')))).toBeInstanceOf(LockDeadlockError);
    });

    it('waits for its turn when it is bound', async () => {
      const locks = open(ALONE);
      const task = elsewhere.runInAsyncScope(() =>
        AsyncResource.bind(() => locks.withLock('stock', ({ depth }) => depth)),
      );
      expect(await meet(locks, task)).toBe(0);
    });

    it('makes no deadlock of a cycle that is none, with reentrant: false', async () => {
      const locks = open(ALONE);
      const other = await locks.acquire('other');
      // Whoever holds "other" waits for "stock", and the task waits for "other" in the flow that holds "stock".
      const task = (): Promise<unknown> => locks.withLock('other', () => 'done');
      const done = await meet(locks, task, async () => {
        await detachedFrom(() => {
          void other.run(() => locks.withLock('stock', () => undefined)).then(() => other.release());
        });
        await turn();
      });
      expect(done).toBe('done');
    });

    it('is warned of once, if it goes on when the other caller has ended', async () => {
      const locks = open();
      const warnings: string[] = [];
      locks.events$.subscribe((event) => event.type === 'warning' && warnings.push(event.message));
      const slow = (): Promise<unknown> =>
        locks.withLock('stock', { site: 'B' }, async () => {
          for (let i = 0; i < 5; i += 1) await turn();
        });
      await meet(locks, slow);
      await meet(locks, slow);
      expect(warnings).toEqual([
        expect.stringMatching(/^"stock" stays locked although A, .*: B shares the lock/),
      ]);
    });
  });

  describe('calls that are nested on purpose', () => {
    it('have their depth, and count as long as they run', async () => {
      const locks = open();
      const warnings: unknown[] = [];
      locks.events$.subscribe((event) => event.type === 'warning' && warnings.push(event));
      const seen: unknown[] = [];
      const note = (lock: Lock): void => void seen.push([lock.depth, lock.calls]);
      await locks.withLock('stock', async (outer) => {
        note(outer);
        await locks.withLock('stock', async (lock) => {
          note(lock);
          await lock.run(() => locks.withLock(['other', 'stock'], note));
        });
        await Promise.all([locks.withLock('stock', note), locks.withLock('stock', turn)]);
        note(outer);
      });
      expect(seen).toEqual([
        [0, 1],
        [1, 2],
        [2, 3],
        [1, 3],
        [0, 1],
      ]);
      expect(warnings).toEqual([]);
    });
  });

  describe('a stream of a nested call that its outer call passes on', () => {
    async function* numbers(): AsyncGenerator<number> {
      yield* [1, 2, 3];
    }
    const streams: Readonly<Record<string, () => AsyncIterable<number>>> = {
      'an async generator': numbers,
      'a Readable': () => Readable.from(numbers()),
      'a web stream': () => ReadableStream.from(numbers()) as unknown as AsyncIterable<number>,
    };
    const readers: Readonly<Record<string, (stream: AsyncIterable<number>) => Promise<void>>> = {
      'to its end': async (stream) => {
        const values: number[] = [];
        for await (const value of stream) values.push(value);
        expect(values).toEqual([1, 2, 3]);
      },
      'in part': async (stream) => {
        for await (const value of stream) if (value === 1) break;
      },
    };
    const cases = Object.entries(streams).flatMap(([kind, make]) =>
      Object.entries(readers).map(([how, read]) => ({ kind, make, how, read })),
    );

    it.each(cases)('($kind, read $how) is no reason for a warning', async ({ make, read }) => {
      const locks = open();
      const warnings: unknown[] = [];
      locks.events$.subscribe((event) => event.type === 'warning' && warnings.push(event));
      await read(await locks.withLock('stock', () => locks.withLock('stock', make)));
      while ((await locks.inspect('stock')) !== null) await turn();
      expect(warnings).toEqual([]);
    });
  });

  /** One caller of a random program. Those in the queue ask once, so that the queue never waits for a lock. */
  interface Caller {
    readonly isQueued: boolean;
    readonly startsAfter: number;
    readonly key: 'a' | 'b';
    readonly turns: number;
    /** Under its lock the caller awaits a task of the queue. */
    readonly usesQueue: boolean;
  }

  const callers = fc.array(
    fc.record<Caller>({
      isQueued: fc.boolean(),
      startsAfter: fc.nat({ max: 3 }),
      key: fc.constantFrom('a', 'b'),
      turns: fc.nat({ max: 3 }),
      usesQueue: fc.boolean(),
    }),
    { minLength: 2, maxLength: 12 },
  );

  /** @returns the most callers that were inside of one lock at a time */
  async function mostInside(locks: LockService, program: readonly Caller[]): Promise<number> {
    const queue = new OneSlot();
    const inside = { a: 0, b: 0 };
    let most = 0;
    const pass = async (turns: number): Promise<void> => {
      for (let i = 0; i < turns; i += 1) await turn();
    };
    const outcomes = program.map(async ({ key, isQueued, usesQueue, startsAfter, turns }) => {
      await pass(startsAfter);
      const work = async (): Promise<void> => {
        inside[key] += 1;
        most = Math.max(most, inside[key]);
        if (usesQueue && !isQueued) await queue.add(() => pass(turns));
        await pass(turns);
        inside[key] -= 1;
      };
      const call = (): Promise<void> => locks.withLock(key, isQueued ? { waitMs: 0 } : {}, work);
      return isQueued ? queue.add(call) : call();
    });
    for (const outcome of await Promise.allSettled(outcomes)) {
      if (outcome.status === 'fulfilled') continue;
      const { reason } = outcome;
      if (!(reason instanceof LockDeadlockError || reason instanceof LockWaitTimeoutError)) throw reason;
    }
    return most;
  }

  describe('callers of a queue with one slot', () => {
    it('are never two in one lock with reentrant: false as the default', async () => {
      await fc.assert(
        fc.asyncProperty(callers, async (program) => {
          const locks = new LockService({ store: memoryStore(), defaults: ALONE });
          const most = await mostInside(locks, program);
          await locks.close();
          expect(most).toBe(1);
        }),
      );
    });

    it('may be two in one lock without it: the programs can tell', async () => {
      const found = await fc.check(
        fc.asyncProperty(callers, async (program) => {
          const locks = new LockService({ store: memoryStore() });
          const most = await mostInside(locks, program);
          await locks.close();
          return most === 1;
        }),
      );
      expect(found.failed).toBe(true);
    });
  });
});
