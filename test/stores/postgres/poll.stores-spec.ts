import { afterEach, beforeEach, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import pg from 'pg';
import { startPgbouncer, type Pgbouncer } from '#pgbouncer';
import { TcpProxy } from '#tcp-proxy';
import { until } from '#until';
import { elapsed, holdAndWait } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { ownPostgres } from './support/own-postgres.js';
import { StatementCounts } from './support/statement-counts.js';

/** A waiter that hears nothing rechecks after 1000 ms. */
const SOONER_THAN_A_RECHECK_MS = 700;

describeWith('postgres')('without notifications', () => {
  const postgres = ownPostgres();

  it('a store that is told to poll has one connection, and is granted long before a recheck', async () => {
    const service = await postgres.openProxied({ notifications: 'poll' });
    expect(postgres.proxy.open).toHaveLength(1);
    await isGrantedSoon(postgres.open(), service, postgres.key);
  });

  it('all keys that callers wait for are read in one statement', async () => {
    const counts = new StatementCounts(postgres.proxy);
    const holder = postgres.open();
    const service = await postgres.openProxied({ notifications: 'poll' });
    const waitMs = 20_000;
    const keys = Array.from({ length: 40 }, (_, i) => `${postgres.key}:${i}`);
    const locks = await Promise.all(keys.map((key) => holder.acquire(key)));
    const waiting = keys.map((key) => service.acquire(key, { waitMs }));
    await until(async () => (await holder.inspect(keys.at(-1)!))?.pending.length === 1);
    const sent = await counts.during(() => new Promise((resolve) => setTimeout(resolve, 1000)));
    // One key alone is read 40 times a second.
    expect(sent).toBeLessThan(3 * 40);
    await Promise.all(locks.map((lock) => lock.release()));
    await Promise.all(waiting.map(async (lock) => (await lock).release()));
  });

  it('a holder hears that its lock was taken', async () => {
    const service = await postgres.openProxied({ notifications: 'poll' });
    const lock = await service.acquire(postgres.key);
    await postgres.open().forceRelease(postgres.key);
    await until(() => lock.signal.aborted, 2000);
    expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
  });
});

describeWith('postgres', 'pgbouncer')('behind a pooler', () => {
  const postgres = ownPostgres();
  let pooler: Pgbouncer | undefined;
  let proxy: TcpProxy;
  const open = async (mode: 'transaction' | 'session') => {
    pooler = await startPgbouncer(postgres.server, { mode, settings: { default_pool_size: 2 } });
    proxy = await TcpProxy.before(pooler.port, { protocol: 'sql' });
    return postgres.open(`postgres://postgres@127.0.0.1:${proxy.port}/postgres`);
  };
  beforeEach(() => (pooler = undefined));
  afterEach(async () => {
    await proxy.close();
    await pooler?.stop();
  });

  it('that takes LISTEN and delivers nothing, the store finds that out by itself and polls', async () => {
    const service = await open('transaction');
    await service.withLock(postgres.key, () => undefined);
    await until(() => proxy.all.some((link) => link.has('listen') && !link.isOpen));
    expect(proxy.open).toHaveLength(1);
    await isGrantedSoon(postgres.open(), service, postgres.key);
  });

  it('that keeps sessions apart, the store listens', async () => {
    const service = await open('session');
    await isGrantedSoon(postgres.open(), service, postgres.key);
    expect(proxy.pushes.isOpen).toBe(true);
  });

  it('settings of the store stay away from other clients of the pooler', async () => {
    const service = await open('transaction');
    await service.withLock(postgres.key, () => undefined);
    const other = new pg.Client(pooler!.url);
    await other.connect();
    const text = `SELECT current_setting('statement_timeout') AS timeout, current_setting('enable_seqscan') AS scan`;
    expect((await other.query(text)).rows).toEqual([{ timeout: '0', scan: 'on' }]);
    await other.end();
  });
});

async function isGrantedSoon(holder: LockService, service: LockService, key: string): Promise<void> {
  const { lock, waiting } = await holdAndWait(holder, service, key);
  await lock.release();
  expect(await elapsed(waiting)).toBeLessThan(SOONER_THAN_A_RECHECK_MS);
  await (await waiting).release();
}
