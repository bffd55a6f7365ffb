import { beforeEach, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import pg from 'pg';
import { until } from '#until';
import { closeServices, openServiceOn } from '../../support/lock-services.js';
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

  it('are one for the locks of one turn, and one for their releases', async () => {
    const client = new pg.Client(postgres.url);
    await client.connect();
    let statements = 0;
    const query = (sql: string, parameters: unknown[]) => {
      statements++;
      return client.query<object>(sql, parameters);
    };
    // Without notifications the store would poll: a statement for locks that are held for a quarter of a second.
    const listen = () => Promise.resolve(() => undefined);
    const own = openServiceOn(postgresStore({ query, listen }));
    await (await own.acquire(postgres.key)).release();
    statements = 0;
    const keys = Array.from({ length: 64 }, (_, i) => `${postgres.key}:${i}`);
    const locks = await Promise.all(keys.map((key) => own.acquire(key)));
    expect(statements).toBe(1);
    await Promise.all(locks.map((lock) => lock.release()));
    expect(statements).toBe(2);
    await closeServices();
    await client.end();
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

  it('are eight for a thousand renewals, and one more for each further beat of the watchdog that shares them', async () => {
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
    // A beat comes every 200 ms, and all of them are due within as long. A busy machine may take four.
    expect(sent).toBeLessThanOrEqual(12);
    expect(locks.every(({ signal }) => !signal.aborted)).toBe(true);
  }, 30_000);
});
