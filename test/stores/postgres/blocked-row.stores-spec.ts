import { afterEach, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { startPgbouncer } from '#pgbouncer';
import { startPostgresServer } from '#postgres-server';
import pg from 'pg';
import { closeServices, openServiceOn } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { ownServer } from '../../support/own-server.js';

describeWith('postgres')('while a transaction keeps the row of one key locked', () => {
  const server = ownServer(startPostgresServer);
  afterEach(closeServices);

  it('a process that waits for this key goes on with its other keys, and is granted after the commit', async () => {
    const [holder, other] = [1, 2].map(() => openServiceOn(postgresStore(server.url)));
    const lock = await holder!.acquire('blocked');
    const transaction = new pg.Client(server.url);
    await transaction.connect();
    await transaction.query('BEGIN');
    await transaction.query(`SELECT FROM nest_lock WHERE name = 'blocked' FOR SHARE`);
    const waiting = other!.acquire('blocked', { waitMs: 30_000 });
    const released = lock.release();
    const until = performance.now() + 2500;
    let slowestMs = 0;
    while (performance.now() < until) {
      const before = performance.now();
      await other!.withLock('another key', () => undefined);
      slowestMs = Math.max(slowestMs, performance.now() - before);
    }
    // A step waits for one statement that waits for the row, not for the commit.
    expect(slowestMs).toBeLessThan(1500);
    await transaction.query('COMMIT');
    await transaction.end();
    await released;
    await (await waiting).release();
  }, 30_000);
});

describeWith('postgres', 'pgbouncer')('behind a pooler, while a frozen transaction keeps', () => {
  const server = ownServer(startPostgresServer);
  const pooler = ownServer(() => startPgbouncer(server, { settings: { default_pool_size: 50 } }));
  afterEach(closeServices);

  const viaPooler = () => postgresStore(pooler.url);
  const viaFunction = () => {
    const pool = new pg.Pool({ connectionString: server.url, max: 50 });
    pools.push(pool);
    return postgresStore({
      query: (sql: string, parameters: unknown[]) => pool.query<object>(sql, parameters),
    });
  };
  const pools: pg.Pool[] = [];
  afterEach(async () => {
    await Promise.all(pools.splice(0).map((pool) => pool.end()));
  });

  const ROW = `SELECT FROM nest_lock WHERE name = 'blocked' FOR SHARE`;
  const TABLE = 'LOCK TABLE nest_lock IN ACCESS EXCLUSIVE MODE';
  it.each([
    ['the row of a key', 'a pooler', ROW, viaPooler],
    ['the row of a key', 'a query function', ROW, viaFunction],
    ['the lock table', 'a pooler', TABLE, viaPooler],
    ['the lock table', 'a query function', TABLE, viaFunction],
  ])(
    '%s locked, each process keeps one backend busy at most, over %s',
    async (what, _, statement, store) => {
      const services = [1, 2, 3].map(() => openServiceOn(store()));
      const [holder, waiter, other] = services as [LockService, LockService, LockService];
      for (const service of services) await service.withLock('first', { waitMs: 5000 }, () => undefined);
      const lock = await holder.acquire('blocked');
      const [frozen, admin] = [new pg.Client(server.url), new pg.Client(server.url)];
      await Promise.all([frozen.connect(), admin.connect()]);
      await frozen.query('BEGIN');
      await frozen.query(statement);
      const waiting = [waiter, other].map((service) => service.acquire('blocked', { waitMs: 60_000 }));
      const done = Promise.all(waiting.map(async (acquired) => (await acquired).release()));
      const end = performance.now() + 4000;
      let most = 0;
      while (performance.now() < end) {
        const calls = other.withLock('another key', { waitMs: 100 }, () => undefined);
        if (what === 'the lock table') await calls.catch(() => undefined);
        else await calls;
        const blocked = `SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'`;
        most = Math.max(most, (await admin.query<{ n: number }>(blocked)).rows[0]!.n);
      }
      // At a time the lock table is locked, a first attempt of each process waits in the server until that is over.
      expect(most).toBeLessThanOrEqual(2 * services.length);
      await frozen.query('COMMIT');
      await Promise.all([frozen.end(), admin.end()]);
      await lock.release();
      await done;
    },
    60_000,
  );
});
