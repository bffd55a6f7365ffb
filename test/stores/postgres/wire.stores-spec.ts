import { beforeEach, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { until } from '#until';
import { describeWith } from '../support/describe-with.js';
import { ownPostgres } from './support/own-postgres.js';
import { StatementCounts } from './support/statement-counts.js';

describeWith('postgres')('the statements that a service on PostgreSQL sends', () => {
  const postgres = ownPostgres();
  let counts: StatementCounts;
  let service: LockService;
  beforeEach(async () => {
    counts = new StatementCounts(postgres.proxy);
    service = await postgres.openProxied();
  });

  it('are two for a lock that nobody else wants', async () => {
    const lockOnce = async () => {
      await service.withLock(postgres.key, () => undefined);
      await postgres.untilFree(postgres.key);
    };
    expect(await counts.during(lockOnce)).toBe(2);
    expect(await counts.during(lockOnce)).toBe(2);
  });

  it('are one for a key that is held, if the caller does not wait, and that one writes nothing', async () => {
    await service.acquire(postgres.key);
    const other = await postgres.openProxied();
    const before = await postgres.run('SELECT xmin, xmax, ctid FROM nest_lock WHERE name = $1', [
      postgres.key,
    ]);
    expect(await counts.during(async () => expect(await other.tryAcquire(postgres.key)).toBeNull())).toBe(1);
    expect(
      await postgres.run('SELECT xmin, xmax, ctid FROM nest_lock WHERE name = $1', [postgres.key]),
    ).toEqual(before);
  });

  it('are three for a release whose row another client has written meanwhile: a lost swap, a reading, and a swap', async () => {
    const lock = await service.acquire(postgres.key);
    await postgres.run('UPDATE nest_lock SET version = version + 1 WHERE name = $1', [postgres.key]);
    expect(await counts.during(async () => expect(await lock.release()).toBe('released'))).toBe(3);
  });

  it('are few for many locks at once, because those that wait for the connection go together', async () => {
    const keys = Array.from({ length: 100 }, (_, i) => `${postgres.key}:${i}`);
    const all = await counts.during(() =>
      Promise.all(keys.map((key) => service.withLock(key, () => undefined))),
    );
    // Two for the first key, which waits for nothing, and two for the others. Some may come a statement later.
    expect(all).toBeLessThan(10);
  });

  it('are one a second and waited key at most, beside the first, while notifications arrive', async () => {
    await service.acquire(postgres.key);
    const other = await postgres.openProxied();
    const waiting = other.acquire(postgres.key, { waitMs: 10_000 });
    await until(async () => (await service.inspect(postgres.key))?.pending.length === 1);
    const seconds = 2;
    const sent = await counts.during(() => new Promise((resolve) => setTimeout(resolve, seconds * 1000)));
    expect(sent).toBeLessThanOrEqual(2 * seconds);
    await service.forceRelease(postgres.key);
    await (await waiting).release();
  });

  it('are eight for a thousand renewals, and nine where two beats of the watchdog share them', async () => {
    const keys = Array.from({ length: 1000 }, (_, i) => `${postgres.key}:${i}`);
    const holder = await postgres.openProxied({}, { watchdogTimeoutMs: 6000 });
    const locks = await Promise.all(keys.map((key) => holder.acquire(key)));
    const lengthOf = async () =>
      Number((await postgres.run<{ sum: string }>(`SELECT sum(version) FROM nest_lock`))[0]?.sum);
    const before = await lengthOf();
    const sent = await counts.during(async () => {
      await until(async () => (await lengthOf()) !== before);
      await new Promise((resolve) => setTimeout(resolve, 500));
    });
    expect(sent).toBeLessThanOrEqual(9);
    expect(locks.every(({ signal }) => !signal.aborted)).toBe(true);
  }, 30_000);
});

describeWith('postgres')('the commits of a service on PostgreSQL', () => {
  // Nothing writes the log to the disk but commits that wait for it.
  const postgres = ownPostgres({ settings: { wal_writer_delay: 10_000, autovacuum: 'off' } });
  const isOnDisk = async () => {
    const lag = 'SELECT pg_current_wal_insert_lsn() - pg_current_wal_flush_lsn() AS lag';
    return Number((await postgres.run<{ lag: string }>(lag))[0]?.lag) === 0;
  };

  it('wait for the disk when they grant, prolong, or hand a lock on, and do not when they free it', async () => {
    const service = await postgres.openProxied({ notifications: 'poll' }, { watchdogTimeoutMs: 2000 });
    const lock = await service.acquire(postgres.key);
    expect(await isOnDisk()).toBe(true);
    const versionOf = () => postgres.run('SELECT version FROM nest_lock WHERE name = $1', [postgres.key]);
    const before = await versionOf();
    await until(async () => JSON.stringify(await versionOf()) !== JSON.stringify(before));
    expect(await isOnDisk()).toBe(true);
    await lock.release();
    await postgres.untilFree(postgres.key);
    expect(await isOnDisk()).toBe(false);
    await service.acquire(postgres.key);
    expect(await isOnDisk()).toBe(true);
  });
});
