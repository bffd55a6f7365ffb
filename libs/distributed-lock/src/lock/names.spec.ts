import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { follow } from '../../../../test/support/lock-world.js';
import { memoryStore } from '../memory/store.js';
import type { LockStore, LockStoreContext, LockStoreFactory } from '../port/lock-store.js';
import { LockConfigurationError, LockStoreError, LockWaitTimeoutError } from '../port/lock.errors.js';
import { ManualClock } from '../testing/manual-clock.js';
import { Hold } from './core/hold.js';
import { FIRST_HOLDER_ENTRY_MS, MAX_AWAITED, NAME_WITHIN_MS } from './core/holder-directory.js';
import type { Lock } from './lock.js';
import { LockService } from './lock.service.js';
import type { LockServiceOptions } from './request/lock-options.js';

type Changes = Partial<Pick<LockStore, 'publishHolderEntry' | 'readHolderEntries'>>;

describe('the name of a holder', () => {
  let clock: ManualClock;
  let memory: LockStoreFactory;
  let told: string[];
  let services: LockService[];
  beforeEach(() => {
    [clock, memory, told, services] = [new ManualClock(), memoryStore(), [], []];
  });
  afterEach(async () => {
    const closed = follow(Promise.all(services.map((service) => service.close())));
    for (let i = 0; i < 20 && closed.state === 'pending'; i++) await clock.advance(1000);
    await closed.promise;
    if (clock.pendingTimers > 0) throw new Error(`${clock.pendingTimers} timers are left`);
  });

  /** Memory, seen through a client that counts what is told, and that may fail. */
  const storeWith = (changes: (client: LockStore) => Changes): LockStoreFactory => ({
    create: (context: LockStoreContext) => {
      const client = memory.create(context);
      const publishHolderEntry: LockStore['publishHolderEntry'] = (entry) => {
        told.push(entry.text);
        return client.publishHolderEntry?.(entry) ?? Promise.resolve();
      };
      return Object.assign(Object.create(client) as LockStore, { publishHolderEntry, ...changes(client) });
    },
  });
  const open = (
    options: Partial<LockServiceOptions> = {},
    changes: (client: LockStore) => Changes = () => ({}),
  ) => {
    const service = new LockService({
      application: 'shop',
      shutdownGraceMs: 0,
      ...options,
      store: storeWith(changes),
      clock,
    });
    services.push(service);
    return service;
  };
  const settled = async <T>(promise: Promise<T>): Promise<T> => {
    const followed = follow(promise);
    await clock.settle();
    return followed.value;
  };

  it('is not told by a client whose locks are all short, however many they are', async () => {
    const locks = open();
    for (let i = 0; i < 30; i++) {
      const lock = await settled(locks.acquire(`k${i}`));
      await clock.advance(FIRST_HOLDER_ENTRY_MS / 10);
      const next = await settled(locks.acquire(`next${i}`));
      await settled(lock.release());
      await clock.advance(FIRST_HOLDER_ENTRY_MS / 10);
      await settled(next.release());
    }
    const long = await settled(locks.acquire('long'));
    expect(told).toEqual([]);
    await clock.advance(2 * FIRST_HOLDER_ENTRY_MS);
    expect(told).toHaveLength(1);
    await settled(long.release());
  });

  it('is read once for all callers whose waits end together', async () => {
    let readings = 0;
    const locks = open();
    const other = open({}, (client) => ({
      readHolderEntries: (ids) => {
        readings += 1;
        return client.readHolderEntries?.(ids) ?? Promise.resolve([]);
      },
    }));
    const lock = await settled(locks.acquire('k', { site: 'nightly' }));
    await clock.advance(FIRST_HOLDER_ENTRY_MS);
    const calls = Array.from({ length: 100 }, () => follow(other.acquire('k', { waitMs: 1000 })));
    await clock.advance(1000 + NAME_WITHIN_MS);
    expect(
      calls.map(({ error }) => (error as Error).message).filter((it) => it.includes('nightly')),
    ).toHaveLength(100);
    expect(readings).toBe(1);
    await settled(lock.release());
  });

  it('is told by inspect and list of another process, with its method and since when', async () => {
    const [locks, other] = [open(), open({ application: 'admin' })];
    await settled(locks.acquire('goods:7', { site: 'Goods.buy' }));
    await clock.advance(FIRST_HOLDER_ENTRY_MS + 4000);
    const seen = await settled(other.inspect('goods:7'));
    const named = { owner: seen?.holders[0], client: locks.client, site: 'Goods.buy', heldMs: 5000 };
    expect(seen?.heldBy).toEqual([named]);
    const page = await settled(other.list({ prefix: 'goods:' }));
    expect(page).toEqual({ entries: [seen], unreadable: [], cursor: undefined });
    expect((await settled(other.list({ prefix: 'orders:' }))).entries).toEqual([]);
  });

  it('comes with the time since the last renewal, where one owner holds the key, and with the names of those that wait', async () => {
    const [locks, next, other] = [open(), open({ application: 'importer' }), open()];
    const held = await settled(locks.acquire('goods:7', { leaseMs: 60_000 }));
    const waits = follow(next.acquire('goods:7', { waitMs: 60_000 }));
    await clock.advance(FIRST_HOLDER_ENTRY_MS + 4000);
    const seen = await settled(other.inspect('goods:7'));
    expect(seen).toMatchObject({ renewedAgoMs: 5000, waiters: [{ client: next.client }] });
    expect(seen?.waiters.map(({ owner }) => owner)).toEqual(seen?.pending);
    await settled(held.release());
    await settled((waits.value as Lock).release());
    const readers = [await settled(locks.acquire('r', { mode: 'shared' }))];
    readers.push(await settled(next.acquire('r', { mode: 'shared' })));
    await clock.advance(FIRST_HOLDER_ENTRY_MS + 4000);
    expect(await settled(other.inspect('r'))).not.toHaveProperty('renewedAgoMs');
    for (const reader of readers) await settled(reader.release());
  });

  it('is in the message of a call whose wait is over, beside the owner that the error names', async () => {
    const [locks, other] = [open(), open()];
    await settled(locks.acquire('k', { site: 'Goods.buy' }));
    await clock.advance(FIRST_HOLDER_ENTRY_MS);
    const waits = follow(other.acquire('k', { waitMs: 40_000 }));
    await clock.advance(40_000);
    const error = waits.error as LockWaitTimeoutError;
    expect(error).toBeInstanceOf(LockWaitTimeoutError);
    const { host } = locks.client;
    expect(error.message).toContain(
      `within 40000 ms: held by shop on ${host} (Goods.buy) for 41 s, whose lease`,
    );
    expect(error.heldBy).toMatchObject({ owner: error.holder, client: locks.client, site: 'Goods.buy' });
    expect(error.holder).toBe(locks.held()[0]?.owner);
  });

  it('is known at once for a lock of the own process', async () => {
    const locks = open();
    await settled(locks.acquire('k', { site: 'mine' }));
    expect((await settled(locks.inspect('k')))?.heldBy).toMatchObject([
      { client: locks.client, site: 'mine' },
    ]);
    expect(told).toEqual([]);
  });

  it('costs short locks nothing, and a client that is idle tells nothing any more', async () => {
    const locks = open();
    for (let i = 0; i < 20; i++) {
      await settled(locks.withLock('k', () => undefined));
      await clock.advance(300);
    }
    expect(told).toEqual([]);
    const lock = await settled(locks.acquire('k'));
    await clock.advance(60_000);
    const told60s = told.length;
    expect(told60s).toBeGreaterThanOrEqual(6);
    expect(told60s).toBeLessThanOrEqual(8);
    await settled(lock.release());
    await clock.advance(600_000);
    expect(told.length).toBeLessThanOrEqual(told60s + 1);
  });

  it('outlives its process as long as its locks do', async () => {
    const [locks, other] = [open(), open()];
    await settled(locks.acquire('long', { leaseMs: 3_600_000, site: 'import' }));
    await clock.advance(FIRST_HOLDER_ENTRY_MS);
    (locks as unknown as { lifecycle: { runtime: { stopTimers(): void } } }).lifecycle.runtime.stopTimers();
    await clock.advance(3_500_000);
    expect((await settled(other.inspect('long')))?.heldBy).toMatchObject([{ site: 'import' }]);
  });

  it('is told for twenty locks at most: for those that are held longest', async () => {
    const locks = open();
    for (let i = 0; i < 25; i++) {
      await settled(locks.acquire(`k${i}`, { site: `site ${i}` }));
      await clock.advance(1);
    }
    await clock.advance(FIRST_HOLDER_ENTRY_MS);
    const text = told.at(-1) ?? '';
    expect(text.match(/site \d+/g)).toHaveLength(20);
    expect(text).toContain('site 0');
    expect(text).not.toContain('site 24');
  });

  it('is told soon for a lock that others begin to wait for, however many locks its process has held for longer', async () => {
    const [locks, other] = [open(), open()];
    for (let i = 0; i < 300; i++) await settled(locks.acquire(`k${i}`, { site: `site ${i}` }));
    await clock.advance(FIRST_HOLDER_ENTRY_MS);
    expect((await settled(other.inspect('k299')))?.heldBy[0]).not.toHaveProperty('site');
    const waits = ['k298', 'k299'].map((key) => follow(other.acquire(key, { waitMs: 3000 })));
    await clock.advance(FIRST_HOLDER_ENTRY_MS);
    expect((await settled(other.inspect('k299')))?.heldBy).toMatchObject([
      { site: 'site 299', heldMs: 2000 },
    ]);
    await clock.advance(2000);
    const messages = waits.map(({ error }) => (error as Error).message);
    expect(messages).toEqual([
      expect.stringContaining('(site 298) for 4 s'),
      expect.stringContaining('(site 299) for 4 s'),
    ]);
    expect(told.filter((text) => text.includes('site'))).toHaveLength(2);
  });

  it('is told soon for a lock that was acquired while another one was waited for already', async () => {
    const [locks, other] = [open(), open()];
    for (let i = 0; i < 30; i++) await settled(locks.acquire(`k${i}`));
    await clock.advance(FIRST_HOLDER_ENTRY_MS);
    const waiting = [follow(other.acquire('k29'))];
    await clock.advance(FIRST_HOLDER_ENTRY_MS / 2);
    await settled(locks.acquire('late', { site: 'late' }));
    waiting.push(follow(other.acquire('late')));
    await clock.advance(2 * FIRST_HOLDER_ENTRY_MS);
    expect((await settled(other.inspect('late')))?.heldBy).toMatchObject([{ site: 'late' }]);
  });

  it('is told for 200 locks at most that others wait for, and not more often for more of them', async () => {
    const [locks, other] = [open(), open()];
    const keys = Array.from({ length: 250 }, (_, i) => `k${i}`);
    for (const key of keys) await settled(locks.acquire(key, { site: `of ${key}` }));
    const waits = keys.map((key) => follow(other.acquire(key)));
    await clock.advance(9 * FIRST_HOLDER_ENTRY_MS);
    expect(waits.every(({ state }) => state === 'pending')).toBe(true);
    const named = told.map((text) => text.match(/of k\d+/g)?.length).filter((it) => it !== undefined);
    expect(named).toEqual([MAX_AWAITED]);
    expect(Math.max(...told.map(({ length }) => length))).toBeLessThan(40_000);
  });

  it('is not told early for locks that others wait for and get soon', async () => {
    const [locks, other] = [open({ application: 'hot' }), open()];
    await settled(locks.acquire('long'));
    for (let i = 0; i < 25; i++) {
      const lock = await settled(locks.acquire('hot'));
      const next = follow(other.acquire('hot'));
      await clock.advance(FIRST_HOLDER_ENTRY_MS / 5);
      await settled(lock.release());
      await settled(next.value.release());
    }
    expect(told.filter((text) => text.includes('hot'))).toHaveLength(1);
  });

  it('of the own process costs a call whose wait is over one look at one lock', async () => {
    const locks = open();
    for (let i = 0; i < 1000; i++) await settled(locks.acquire(`k${i}`, { site: 'Goods.buy' }));
    const looks = jest.spyOn(Hold.prototype, 'describe');
    for (let i = 0; i < 10; i++) {
      const call = follow(locks.acquire(`k${i}`, { waitMs: 5 }));
      await clock.advance(5);
      expect((call.error as Error).message).toContain('(Goods.buy)');
    }
    expect(looks).toHaveBeenCalledTimes(10);
    looks.mockRestore();
  });

  it('is neither told nor asked for with application: false', async () => {
    let asked = 0;
    const [locks, other] = [
      open({ application: false }),
      open({ application: false }, () => ({ readHolderEntries: async () => (asked++, []) })),
    ];
    await settled(locks.acquire('k', { site: 'secret' }));
    const waits = follow(other.acquire('k', { waitMs: 5000 }));
    await clock.advance(20_000);
    expect((waits.error as LockWaitTimeoutError).heldBy).toBeUndefined();
    expect((await settled(other.inspect('k')))?.heldBy).toEqual([{ owner: locks.held()[0]?.owner }]);
    expect([told, asked]).toEqual([[], 0]);
  });

  it('that the store does not give delays and changes no answer', async () => {
    const locks = open();
    const silent = open({}, () => ({ readHolderEntries: () => new Promise(() => undefined) }));
    const failing = open({}, () => ({
      readHolderEntries: () => Promise.reject(new LockStoreError('down', undefined, 'unreachable')),
    }));
    await settled(locks.acquire('k'));
    await clock.advance(FIRST_HOLDER_ENTRY_MS);
    const calls = [silent, failing].map((it) => follow(it.acquire('k', { waitMs: 1000 })));
    await clock.advance(1000 + NAME_WITHIN_MS);
    for (const call of calls) {
      expect(call.error).toBeInstanceOf(LockWaitTimeoutError);
      expect((call.error as Error).message).toMatch(/held by [\w-]+:\d+, whose lease/);
    }
    expect((await settled(failing.inspect('k')))?.heldBy).toEqual([{ owner: locks.held()[0]?.owner }]);
  });

  it('is ignored where it does not read as a client writes it', async () => {
    const [locks, other] = [open(), open({}, () => ({ readHolderEntries: async () => ['{"a":'] }))];
    const odd = open({}, () => ({ readHolderEntries: async () => ['["a", 1, {}]'] }));
    await settled(locks.acquire('k'));
    for (const it of [other, odd])
      expect((await settled(it.inspect('k')))?.heldBy).toEqual([{ owner: expect.any(String) }]);
  });

  it.each([-1e306, 1e306, -1e12, -8.64e15, null, '2024'])(
    'has no age where the start of the hold cannot be one: %p',
    async (since) => {
      const locks = open();
      await settled(locks.acquire('k'));
      const owner = locks.held()[0]?.owner;
      const read = async () => [JSON.stringify(['shop', 'pod-7', 7, 1e12, [owner, since, 'nightly import']])];
      const [holder] =
        (await settled(open({}, () => ({ readHolderEntries: read })).inspect('k')))?.heldBy ?? [];
      expect(holder).toMatchObject({ client: { application: 'shop' }, site: 'nightly import' });
      expect(holder).not.toHaveProperty('heldMs');
    },
  );

  it('is given up with one warning where the store refuses it, and the locks go on', async () => {
    const refused = new LockStoreError('no right to SET', undefined, 'refused');
    const locks = open({}, () => ({ publishHolderEntry: () => Promise.reject(refused) }));
    const warnings: string[] = [];
    locks.events$.subscribe((event) => event.type === 'warning' && warnings.push(event.message));
    const lock = await settled(locks.acquire('k'));
    await clock.advance(100_000);
    expect(warnings).toEqual([expect.stringContaining('application: false')]);
    expect(lock.signal.aborted).toBe(false);
    await settled(lock.release());
  });

  it.each([
    [{ limit: 0 }],
    [{ limit: 1001 }],
    [{ limit: '5' }],
    [{ prefix: 7 }],
    [{ cursor: 7 }],
    [{ from: 'a' }],
  ])('is not listed for wrong options: %j', async (options) => {
    await expect(open().list(options as object)).rejects.toBeInstanceOf(LockConfigurationError);
  });

  it('is asked for key by key in a store that cannot list, which says so', async () => {
    const locks = open();
    const create = (context: LockStoreContext): LockStore =>
      Object.create(memory.create(context), { list: { value: undefined } }) as LockStore;
    const store: LockStoreFactory = { create };
    const other = new LockService({ store, clock });
    services.push(locks);
    await expect(other.list()).rejects.toMatchObject({ code: 'LOCK_STORE', reason: 'refused' });
    await expect(other.list()).rejects.toThrow('locks.inspect(key)');
  });
});
