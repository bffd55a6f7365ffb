import { AsyncLocalStorage } from 'node:async_hooks';
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { eventsOf, typesOf } from '../../../../test/support/events.js';
import { follow } from '../../../../test/support/lock-world.js';
import { warningsDuring } from '../../../../test/support/warnings.js';
import { world } from '../../../../test/support/world-per-test.js';
import { LockLostError, LockShutdownError } from '../port/lock.errors.js';
import type { LockService } from './lock.service.js';
import type { Lock } from './lock.js';

const GRACE_MS = 5000;

let locks: LockService;
const startService = (): void => {
  locks = world.service({ shutdownGraceMs: GRACE_MS });
};

/** A job that runs until somebody tells it to stop. */
async function loop(signal: AbortSignal): Promise<number> {
  let rounds = 0;
  while (!signal.aborted) {
    rounds += 1;
    await new Promise<void>((resolve) => world.clock.after(100, resolve));
  }
  return rounds;
}

describe('lock.shutdownSignal', () => {
  beforeEach(startService);

  it('ends a loop when the shutdown begins, long before its grace is over, and nothing is lost', async () => {
    const events = eventsOf(locks);
    const job = follow(locks.withLock('k', (lock) => loop(lock.shutdownSignal)));
    await world.clock.advance(1000);
    expect(job.state).toBe('pending');
    const closed = follow(locks.close());
    await world.clock.advance(150);
    expect(job.value).toBeGreaterThan(5);
    expect(closed.state).toBe('resolved');
    expect(typesOf(events)).toEqual(['acquired', 'released']);
  });

  it('says which key, why and for how long, and is no loss', async () => {
    const lock = await world.take(locks, 'k');
    const { shutdownSignal, signal } = lock;
    const closed = follow(locks.close());
    await world.clock.settle();
    expect(shutdownSignal.reason).toBeInstanceOf(LockShutdownError);
    expect(shutdownSignal.reason).toMatchObject({
      key: 'k',
      message: expect.stringContaining('within 5000 ms'),
    });
    expect(signal.aborted).toBe(false);
    lock.assertHeld();
    await world.clock.advance(GRACE_MS);
    expect(signal.reason).toBeInstanceOf(LockLostError);
    expect(closed.state).toBe('resolved');
  });

  it('is aborted for who asks first when the shutdown has begun', async () => {
    const lock = await world.take(locks, 'k');
    const closed = follow(locks.close());
    await world.clock.settle();
    expect(lock.shutdownSignal.aborted).toBe(true);
    await lock.release();
    await world.clock.settle();
    expect(closed.state).toBe('resolved');
  });

  it('never aborts once the lock is given back', async () => {
    const lock = await world.take(locks, 'k');
    const { shutdownSignal } = lock;
    await lock.release();
    await locks.close();
    expect([shutdownSignal.aborted, lock.shutdownSignal.aborted]).toEqual([false, false]);
  });

  it('is told to every holder: of several keys, of readers, and inside of nested calls', async () => {
    const told: string[] = [];
    const job = (name: string) => async (lock: Lock) => {
      await loop(lock.shutdownSignal);
      told.push(name);
    };
    const jobs = Promise.all([
      locks.withLock(['a', 'b'], job('several')),
      locks.withLock('r', { mode: 'shared' }, job('reader 1')),
      locks.withLock('r', { mode: 'shared' }, job('reader 2')),
      locks.withLock('n', () => locks.withLock(['n', 'o'], job('nested'))),
      locks.withLock('f', { leaseMs: 60_000 }, job('fixed lease')),
    ]);
    await world.clock.advance(300);
    const closed = follow(locks.close());
    await world.clock.advance(200);
    await jobs;
    expect(told.toSorted()).toEqual(['fixed lease', 'nested', 'reader 1', 'reader 2', 'several']);
    expect(closed.state).toBe('resolved');
  });

  it('tells each listener in the request that has added it', async () => {
    const requests = new AsyncLocalStorage<string>();
    const heard: (string | undefined)[] = [];
    const held = await Promise.all(
      ['one', 'two'].map((request) =>
        requests.run(request, async () => {
          const lock = await locks.acquire(request);
          lock.shutdownSignal.addEventListener('abort', () => {
            heard.push(requests.getStore());
            void lock.release();
          });
        }),
      ),
    );
    expect(held).toHaveLength(2);
    await requests.run('shutdown', () => locks.close());
    expect(heard).toEqual(['one', 'two']);
  });

  it('costs nothing unless it is asked for', async () => {
    const made = jest.spyOn(globalThis, 'AbortController');
    await locks.withLock('k', () => undefined);
    const lock = await world.take(locks, 'k');
    const closed = follow(locks.close());
    await lock.release();
    await world.clock.settle();
    expect(closed.state).toBe('resolved');
    expect(made).not.toHaveBeenCalled();
    made.mockRestore();
  });
});

describe('the signals of a lock', () => {
  beforeEach(startService);

  it('take any number of listeners without a warning of Node, as each query under the lock may add one', async () => {
    const [one, two] = [await world.take(locks, 'k'), await world.take(locks, ['a', 'b'])];
    const signals = [one.signal, one.shutdownSignal, two.signal, two.shutdownSignal];
    const warnings = await warningsDuring(async () => {
      for (const signal of signals) for (let i = 0; i < 20; i++) signal.addEventListener('abort', () => i);
    });
    expect([new Set(signals).size, warnings]).toEqual([4, []]);
  });
});

describe('a listener of lock.shutdownSignal', () => {
  beforeEach(startService);

  it('that asks for a lock is refused at once, however long it would wait', async () => {
    await world.take(world.service(), 'busy');
    const lock = await world.take(locks, 'k');
    let asked: Promise<unknown> | undefined;
    lock.shutdownSignal.addEventListener('abort', () => {
      asked = locks.acquire('busy', { waitMs: Infinity });
      asked.catch(() => undefined);
      void lock.release();
    });
    const closed = follow(locks.close());
    await world.clock.advance(GRACE_MS);
    await expect(asked).rejects.toBeInstanceOf(LockShutdownError);
    expect(closed.state).toBe('resolved');
  });

  it('that closes the service waits for the same end as everybody', async () => {
    const lock = await world.take(locks, 'k');
    let inner: Promise<void> | undefined;
    lock.shutdownSignal.addEventListener('abort', () => {
      inner = locks.close();
    });
    const closed = follow(locks.close());
    await lock.release();
    await world.clock.advance(100);
    await inner;
    expect(closed.state).toBe('resolved');
  });
});

describe('a service that waits with closing', () => {
  const warningOf = async (): Promise<string> => {
    const warnings: string[] = [];
    locks.events$.subscribe((event) => event.type === 'warning' && warnings.push(event.message));
    const closed = follow(locks.close());
    await world.clock.advance(GRACE_MS);
    expect(closed.state).toBe('resolved');
    expect(warnings).toHaveLength(1);
    return warnings[0] ?? '';
  };
  beforeEach(startService);

  it('tells which methods still hold a lock and for how long, and suspects none of a forgotten release', async () => {
    await world.take(locks, 'goods:42', { site: 'Goods.import' });
    void locks.withLock('goods:43', () => new Promise(() => undefined)).catch(() => undefined);
    await world.clock.advance(11_000);
    expect(await warningOf()).toBe(
      'The application waits with closing, 5000 ms at most, for locks that are still held: "goods:42" (Goods.import, for 12 s), "goods:43" (for 12 s). Long work should end by lock.shutdownSignal.',
    );
  });

  it.each(['noted', 'not noted'])(
    'asks about a release for a lock of acquire() alone, and names that one first, where its line is %s',
    async (isNoted) => {
      const isBusy = isNoted === 'not noted';
      if (isBusy) for (let i = 0; i < 100; i++) await (await world.take(locks, `order:${i}`)).release();
      for (let i = 0; i < 10; i++) await world.take(locks, `job:${i}`, { site: 'Jobs.run' });
      await world.take(locks, 'goods:42');
      const warning = await warningOf();
      const site = isBusy ? '' : String.raw`acquire\(\) .*lock-world\.ts:\d+, `;
      expect(warning).toMatch(
        new RegExp(
          String.raw`^.* still held: "goods:42" \(${site}for 1 s\), "job:0" \(Jobs\.run, for 1 s\),.*, 6 more\. Was a lock of acquire\(\) never released\?`,
        ),
      );
    },
  );
});
