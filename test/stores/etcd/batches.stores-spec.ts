import { expect, it } from '@jest/globals';
import { until } from '#until';
import { describeWith } from '../support/describe-with.js';
import { ownEtcd } from './support/own-etcd.js';

describeWith('etcd')('many steps at once on etcd', () => {
  const etcd = ownEtcd();
  const keysOf = (count: number) => Array.from({ length: count }, (_, i) => `${etcd.key}:${i}`);

  it('take the locks of one turn by one transaction, and release them by one', async () => {
    const service = await etcd.openReady();
    const keys = keysOf(100);
    const { Txn: taking } = await etcd.countsDuring(async () => {
      const locks = await Promise.all(keys.map((key) => service.acquire(key)));
      expect(locks).toHaveLength(100);
      await Promise.all(locks.map((lock) => lock.release()));
    });
    // A keep-alive with its reading may come in between.
    expect(taking).toBeLessThanOrEqual(3);
    expect(await etcd.list('l/')).toEqual([]);
  });

  it('stay within the size of a request, however long the names are', async () => {
    const service = await etcd.openReady();
    const keys = keysOf(100).map((key) => `${key}:${'漢'.repeat(950)}`);
    const locks = await Promise.all(keys.map((key) => service.acquire(key)));
    expect(await Promise.all(locks.map((lock) => lock.release()))).not.toContain('lost');
  });

  it('take a hundred keys together, all or none', async () => {
    const service = await etcd.openReady();
    const keys = keysOf(100);
    const other = await etcd.openReady();
    const held = await other.acquire(keys[50] as string);
    expect(await service.tryAcquire(keys)).toBeNull();
    await until(async () => (await etcd.list('l/')).length === 1);
    await held.release();
    await etcd.untilFree(keys[50] as string);
    const lock = await service.acquire(keys, { waitMs: 0 });
    expect(await etcd.list('l/')).toHaveLength(100);
    await lock.release();
  });

  it('take in three hundred notes by one swap', async () => {
    const [holder, one, other] = [await etcd.openReady(), await etcd.openReady(), await etcd.openReady()];
    const lock = await holder.acquire(etcd.key);
    const waiting = Array.from({ length: 300 }, (_, i) =>
      (i % 2 ? one : other).withLock(etcd.key, { waitMs: 50_000, fair: true }, () => undefined),
    );
    await until(async () => ((await holder.inspect(etcd.key))?.pending.length ?? 0) === 300);
    expect(await lock.release()).toBe('released');
    await Promise.all(waiting);
    await etcd.untilFree(etcd.key);
    expect(await etcd.list('q/')).toEqual([]);
  }, 90_000);

  it('tell one client of a hundred hand-offs by a few transactions', async () => {
    const [holder, next] = [await etcd.openReady(), await etcd.openReady()];
    const keys = keysOf(100);
    const locks = await Promise.all(keys.map((key) => holder.acquire(key)));
    const waiting = Promise.all(keys.map((key) => next.acquire(key, { waitMs: 20_000 })));
    await until(async () => {
      const snapshots = await Promise.all(keys.map((key) => holder.inspect(key)));
      return snapshots.every((snapshot) => snapshot?.pending.length === 1);
    });
    const { Txn } = await etcd.countsDuring(async () => {
      await Promise.all(locks.map((lock) => lock.release()));
      await waiting;
    });
    // By rechecks they would be a hundred.
    expect(Txn).toBeLessThan(40);
    await Promise.all((await waiting).map((lock) => lock.release()));
  });
});

describeWith('etcd')('many steps at once on an etcd that takes small requests only', () => {
  const etcd = ownEtcd({ settings: { 'max-request-bytes': 40_000 } });

  it('go one by one after etcd has refused them together', async () => {
    const service = await etcd.openReady();
    const keys = Array.from({ length: 40 }, (_, i) => `${etcd.key}:${i}:${'x'.repeat(900)}`);
    const locks = await Promise.all(keys.map((key) => service.acquire(key)));
    await Promise.all(locks.map((lock) => lock.release()));
    expect(locks).toHaveLength(40);
  });
});
