import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { type INestApplicationContext, Module, type Type } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { Redis } from 'ioredis';
import {
  DistributedLockModule,
  LockLostError,
  LockService,
  type LockWaitTimeoutError,
  memoryStore,
} from 'nestjs-distributed-lock';
import type { PGlite } from '@electric-sql/pglite';
import { type Faults, FaultyStore, ManualClock } from 'nestjs-distributed-lock/testing';
import { openEmbeddedPostgres } from '#embedded-postgres';
import { until } from '#until';
import { startApp } from '../nest/integration/stage.js';
import { CartController } from './recipes/class-defaults.js';
import { AppModule as ConfiguredModule } from './recipes/configured.js';
import { AppModule as TwoStoresModule, Thumbnails } from './recipes/two-stores.js';
import { MigrateAtBoot, Migrations } from './recipes/migrations.js';

const open: INestApplicationContext[] = [];

async function started(...modules: Type<unknown>[]): Promise<INestApplicationContext> {
  const app = await (await Test.createTestingModule({ imports: modules }).compile()).init();
  open.push(app);
  return app;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((app) => app.close()));
  jest.restoreAllMocks();
});

describe('options from a configuration', () => {
  it('are taken from its service, and locks are there in modules that import nothing', async () => {
    class Elsewhere {
      constructor(readonly locks: LockService) {}
    }
    @Module({
      providers: [
        { provide: Elsewhere, useFactory: (it: LockService) => new Elsewhere(it), inject: [LockService] },
      ],
    })
    class OtherModule {}

    const app = await started(ConfiguredModule, OtherModule);
    const { locks } = app.get(Elsewhere);
    expect(locks.options).toMatchObject({ keyPrefix: 'shop:dev:', waitMs: 3000 });
    const key = `configured-${process.pid}`;
    const redis = new Redis(String(process.env['REDIS_URL']));
    await locks.withLock(key, async () => expect(await redis.exists(`shop:dev:${key}`)).toBe(1));
    redis.disconnect();
  });
});

describe('options of a class', () => {
  const order = (isDraft: boolean): RequestInit => ({
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ isDraft }),
  });

  it('hold for its methods, a method may say otherwise, and what needs no lock waits for none', async () => {
    const { app, fetch, locks } = await startApp('express', { controllers: [CartController] });
    open.push(app);
    const waited: number[] = [];
    locks.events$.subscribe((event) => {
      if (event.type === 'abandoned') waited.push((event.error as LockWaitTimeoutError).waitMs);
    });
    await locks.withLock('cart:7', async () => {
      expect((await fetch('/carts/7/lines', { method: 'POST' })).status).toBe(409);
      expect((await fetch('/carts/7/order', order(false))).status).toBe(409);
      expect(await (await fetch('/carts/7/order', order(true))).text()).toBe('what 7 would cost');
    });
    expect(waited).toEqual([500, 0]);
    expect(await (await fetch('/carts/7/order', order(false))).text()).toBe('ordered 7');
  });
});

describe('two registrations', () => {
  it('lock apart from each other, each by its name', async () => {
    const app = await started(TwoStoresModule);
    const thumbnails = app.get(Thumbnails);
    expect(await thumbnails.replace('cat')).toBe('cat is smaller');
    const shared = await app.get(LockService).acquire('cpu');
    expect(await thumbnails.isIdle()).toBe(true);
    expect(await thumbnails.shrink('dog')).toBe('dog is smaller');
    await shared.release();
  });
});

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
