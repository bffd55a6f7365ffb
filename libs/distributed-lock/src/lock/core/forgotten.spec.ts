import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { follow } from '../../../../../test/support/lock-world.js';
import { ManualClock } from '../../testing/manual-clock.js';
import { memoryStore } from '../../memory/store.js';
import type { Lock } from '../lock.js';
import { LockService } from '../lock.service.js';

const FORGOTTEN_AFTER_MS = 1000;

class Goods {
  constructor(private readonly locks: LockService) {}

  buy(): Promise<Lock> {
    return this.locks.acquire('goods:42');
  }

  look(): Promise<Lock | null> {
    return this.locks.tryAcquire('goods:42');
  }
}

describe('a lock of acquire() that is never released', () => {
  let clock: ManualClock;
  let locks: LockService;
  let warnings: string[];
  beforeEach(() => {
    clock = new ManualClock();
    warnings = [];
    locks = openService();
  });
  afterEach(async () => {
    const closed = follow(locks.close());
    for (let i = 0; i < 20 && closed.state === 'pending'; i++) await clock.advance(1000);
    await closed.promise;
    if (clock.pendingTimers > 0) throw new Error(`${clock.pendingTimers} timers are left`);
  });
  const openService = () => {
    const service = new LockService({ store: memoryStore(), clock, shutdownGraceMs: 0 });
    service.events$.subscribe((event) => event.type === 'warning' && warnings.push(event.message));
    return service;
  };
  const taken = async <T>(promise: Promise<T>): Promise<T> => {
    const followed = follow(promise);
    await clock.settle();
    return followed.value;
  };
  const waitFor = async (ms: number) => {
    const waits = follow(locks.withLock('goods:42', () => undefined));
    await clock.advance(ms);
    return waits;
  };

  it.each(['buy', 'look'] as const)(
    'is told of with the line of %s, as soon as another caller has waited for a second',
    async (method) => {
      await taken(new Goods(locks)[method]());
      await waitFor(FORGOTTEN_AFTER_MS);
      expect(warnings).toEqual([
        expect.stringMatching(
          new RegExp(
            `^Callers of this process wait for "goods:42", which it has held for 1000 ms by acquire\\(\\) in Goods\\..*\\b${method}\\b.*, forgotten\\.spec\\.ts:\\d+\\. Was that lock never released\\?`,
          ),
        ),
      ]);
    },
  );

  it('is told of once, and the callers whose wait ends are told the line, too', async () => {
    await taken(new Goods(locks).buy());
    const first = await waitFor(10_000);
    await waitFor(10_000);
    expect(warnings).toHaveLength(1);
    expect((first.error as Error).message).toMatch(
      /^Could not acquire "goods:42" within 10000 ms: held by .+ \(acquire\(\) in Goods\..*buy.*, forgotten\.spec\.ts:\d+\) for 10 s, .+\. Was that lock never released\?/,
    );
  });

  it('is told of no sooner than it has been held for a second', async () => {
    const lock = await taken(new Goods(locks).buy());
    await waitFor(FORGOTTEN_AFTER_MS - 1);
    await taken(lock.release());
    const next = await taken(new Goods(locks).buy());
    await waitFor(FORGOTTEN_AFTER_MS - 1);
    expect(warnings).toEqual([]);
    await clock.advance(FORGOTTEN_AFTER_MS);
    expect(warnings).toHaveLength(1);
    await taken(next.release());
  });

  it('is not suspected where nobody waits, nor in work under withLock or a call that has a site', async () => {
    await taken(locks.acquire('alone'));
    const named = await taken(locks.acquire('goods:42', { site: 'nightly report' }));
    await waitFor(5000);
    await taken(named.release());
    let end = (): void => undefined;
    const work = follow(locks.withLock('goods:42', () => new Promise<void>((resolve) => (end = resolve))));
    await waitFor(5000);
    expect(warnings).toEqual([]);
    end();
    await taken(work.promise);
  });

  it.each([
    ['makes an array of a stack', () => []],
    [
      'throws',
      () => {
        throw new Error('no stack today');
      },
    ],
  ])('is told of without its line where the application %s', async (_, prepareStackTrace) => {
    await taken(new Goods(locks).buy());
    const before: unknown = Reflect.get(Error, 'prepareStackTrace');
    Reflect.set(Error, 'prepareStackTrace', prepareStackTrace);
    await waitFor(FORGOTTEN_AFTER_MS).finally(() => Reflect.set(Error, 'prepareStackTrace', before));
    expect(warnings).toEqual([expect.stringContaining('by acquire(). Was that lock never released?')]);
  });

  it('costs a busy process little: a hundred lines are noted in 100 ms, and further ones are not', async () => {
    for (let i = 0; i < 101; i++) await taken(locks.acquire(`order:${i}`));
    expect(locks.held().filter(({ site }) => site === undefined)).toMatchObject([{ key: 'order:100' }]);
    await clock.advance(100);
    await taken(locks.acquire('order:101'));
    expect(locks.held().at(-1)).toMatchObject({
      key: 'order:101',
      site: expect.stringContaining('acquire()'),
    });
  });
});
