import { expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { describeWith } from '../support/describe-with.js';
import { ownEtcd } from './support/own-etcd.js';
import { holdAndWait } from '../../support/lock-services.js';

/** `Range` is that of the gateway. A keep-alive is followed by a transaction that reads. */
const countsOf = ({
  Txn = 0,
  LeaseKeepAlive = 0,
  Range = 0,
  ...others
}: Readonly<Record<string, number>>) => ({
  Txn: Txn - LeaseKeepAlive,
  LeaseKeepAlive,
  Range,
  others,
});

describeWith('etcd')('the requests that a service sends to etcd', () => {
  const etcd = ownEtcd();

  it('are two transactions for a lock that nobody else wants, and nothing else', async () => {
    const service = await etcd.openReady();
    const lockOnce = async () => {
      await service.withLock(etcd.key, () => undefined);
      await etcd.untilFree(etcd.key);
    };
    for (let i = 0; i < 3; i++) {
      const { Txn, others } = countsOf(await etcd.countsDuring(lockOnce));
      expect({ Txn, others }).toEqual({ Txn: 2, others: {} });
    }
  });

  it('are one for a key that is held, if the caller does not wait', async () => {
    const holder = await etcd.openReady();
    await holder.acquire(etcd.key);
    const other = await etcd.openReady();
    // Whether the session of the holder is alive is asked for once a second.
    await other.tryAcquire(etcd.key);
    const before = await etcd.list('l/');
    const counts = await etcd.countsDuring(async () => expect(await other.tryAcquire(etcd.key)).toBeNull());
    expect(countsOf(counts).Txn).toBe(1);
    expect(await etcd.list('l/')).toEqual(before);
  });

  it('tell a hand-off by the watch: two transactions, and one of the next owner', async () => {
    const [holder, next] = [await etcd.openReady(), await etcd.openReady()];
    const { lock, waiting } = await holdAndWait(holder, next, etcd.key);
    const counts = await etcd.countsDuring(async () => {
      await lock.release();
      await waiting;
    });
    // The holder has read the notes when it was told of them, so its swap is right at once. A recheck may come in between.
    expect(countsOf(counts).Txn).toBeLessThanOrEqual(4);
    await (await waiting).release();
  });

  it('are three a second and waited key at most', async () => {
    const [holder, next] = [await etcd.openReady(), await etcd.openReady()];
    const { waiting } = await holdAndWait(holder, next, etcd.key);
    const seconds = 3;
    const counts = await etcd.countsDuring(
      () => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
    );
    // A recheck, whether the session of the holder is alive, and a message to the holder.
    expect(countsOf(counts).Txn).toBeLessThanOrEqual(3 * (seconds + 1));
    await holder.forceRelease(etcd.key);
    await (await waiting).release();
  });

  it('are twenty at most for a thousand renewals', async () => {
    const beatMs = 5000;
    const options = { watchdogTimeoutMs: 3 * beatMs };
    const service: LockService = await etcd.openReady(etcd.url, { commandTimeoutMs: 2000 }, options);
    const keys = Array.from({ length: 1000 }, (_, i) => `${etcd.key}:${i}`);
    const locks = await Promise.all(keys.map((key) => service.acquire(key)));
    const beats = 2;
    const counts = await etcd.countsDuring(
      () => new Promise((resolve) => setTimeout(resolve, beats * beatMs)),
    );
    expect(countsOf(counts).Txn).toBeLessThanOrEqual((beats + 1) * 20);
    expect(countsOf(counts).LeaseKeepAlive).toBeLessThanOrEqual(2 * beats + 4);
    expect(locks.every(({ signal }) => !signal.aborted)).toBe(true);
    await Promise.all(locks.map((lock) => lock.release()));
  }, 60_000);
});
