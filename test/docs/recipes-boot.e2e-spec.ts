import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { PGlite } from '@electric-sql/pglite';
import type { TestingModule } from '@nestjs/testing';
import { Test } from '@nestjs/testing';
import { DistributedLockModule, LockLostError, memoryStore } from 'nestjs-distributed-lock';
import { FaultyStore, ManualClock, type Faults } from 'nestjs-distributed-lock/testing';
import { openEmbeddedPostgres } from '#embedded-postgres';
import { until } from '#until';
import { MigrateAtBoot, Migrations } from './recipes/migrations.js';

/** None can run twice: a table that exists is an error. */
const ALL = ['CREATE TABLE goods (id INT)', 'ALTER TABLE goods ADD stock INT', 'CREATE TABLE sales (id INT)'];

describe('migrations at boot', () => {
  let database: PGlite;
  let store = memoryStore();
  let clock = new ManualClock();
  const open: TestingModule[] = [];
  const log: string[] = [];
  const network: Faults[] = [];

  /** One instance; `before` is called before each of its migrations. */
  async function boot(before: (sql: string) => unknown = () => undefined, faults: Faults = {}) {
    network.push(faults);
    class Sql extends Migrations {
      override async pending(): Promise<readonly string[]> {
        const { rows } = await database.query<{ name: string }>('SELECT name FROM migrations');
        return ALL.filter((name) => !rows.some((row) => row.name === name));
      }

      override async run(sql: string): Promise<void> {
        await before(sql);
        await database.transaction(async (tx) => {
          await tx.query('INSERT INTO migrations VALUES ($1)', [sql]);
          await tx.exec(sql);
        });
        log.push(sql);
      }
    }
    const module = await Test.createTestingModule({
      imports: [
        DistributedLockModule.forRoot({ store: new FaultyStore(store, faults), clock, logger: false }),
      ],
      providers: [MigrateAtBoot, { provide: Migrations, useClass: Sql }],
    }).compile();
    open.push(module);
    await module.init();
    log.push('up');
  }

  beforeAll(async () => {
    database = await openEmbeddedPostgres();
  }, 30_000);
  beforeEach(async () => {
    [store, clock] = [memoryStore(), new ManualClock()];
    log.length = 0;
    await database.exec(
      'DROP TABLE IF EXISTS goods, sales, migrations; CREATE TABLE migrations (name TEXT PRIMARY KEY)',
    );
  });
  afterEach(async () => {
    network.splice(0).forEach((faults) => delete faults.command);
    const closed = Promise.all(open.splice(0).map((module) => module.close()));
    await clock.advance(60_000);
    await closed;
  });
  afterAll(() => database.close());

  it('run once over three instances that start together, and all are up when they are done', async () => {
    await Promise.all([boot(), boot(), boot()]);
    expect(log).toEqual([...ALL, 'up', 'up', 'up']);
  });

  it('keep the lock for as long as they take', async () => {
    let finish = (): void => undefined;
    const first = boot((sql) => sql === ALL[1] && new Promise<void>((resolve) => (finish = resolve)));
    await until(() => log.length === 1);
    const second = boot();
    await clock.advance(500_000); // many leases long, and shorter than the second one waits
    expect(log).toEqual([ALL[0]]);
    finish();
    await Promise.all([first, second]);
    expect(log).toEqual([...ALL, 'up', 'up']);
  });

  it('are gone on with by the next instance, one lease after the first one has died', async () => {
    const faults: Faults = {};
    let finish = (): void => undefined;
    const first = boot((sql) => sql === ALL[1] && new Promise<void>((resolve) => (finish = resolve)), faults);
    first.catch(() => undefined);
    await until(() => log.length === 1);
    faults.command = () => ({ executedAfterMs: [], repliedAfterMs: 'never' }); // nothing comes from it any more
    const second = boot();
    await clock.advance(25_000);
    expect(log).toEqual([ALL[0]]);
    await clock.advance(10_000);
    await second;
    expect(log).toEqual([...ALL, 'up']);
    // It was only frozen: the database refuses what it had begun, and it does not come up.
    finish();
    await expect(first).rejects.toThrow('migrations_pkey');
    expect(log).toEqual([...ALL, 'up']);
  });

  it('stop before the next one when the lock is lost', async () => {
    const faults: Faults = {};
    const first = boot(async (sql) => {
      if (sql !== ALL[0]) return;
      faults.command = () => ({ executedAfterMs: [], repliedAfterMs: 'never' });
      await clock.advance(35_000);
    }, faults);
    await expect(first).rejects.toBeInstanceOf(LockLostError);
    expect(log).toEqual([ALL[0]]);
  });
});
