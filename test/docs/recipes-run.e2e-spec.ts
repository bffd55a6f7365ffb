import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { PGlite } from '@electric-sql/pglite';
import { BullModule, getQueueToken } from '@nestjs/bullmq';
import type { INestApplicationContext, ModuleMetadata } from '@nestjs/common';
import { ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { Queue, QueueEvents } from 'bullmq';
import { createClient } from 'graphql-ws';
import { DistributedLockModule, LockLostError, LockService } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { WebSocket } from 'ws';
import { ask, startGraphql } from '../nest/edge/transports/graphql.js';
import { startApp } from '../nest/integration/stage.js';
import { openEmbeddedPostgres } from '#embedded-postgres';
import { until } from '#until';
import { Accounts, Database as AccountsDatabase } from './recipes/accounts.js';
import { StockResolver } from './recipes/graphql-mutation.js';
import { ExportController, Exports, ExportWorker } from './recipes/handed-over.js';
import { InvoiceWorker } from './recipes/invoice-worker.js';
import { NightlyReport } from './recipes/nightly-report.js';
import { Database as GoodsDatabase, GoodsController, type Goods as GoodsRow } from './recipes/stock.js';
import { EditorResolver } from './recipes/subscription.js';

const url = String(process.env['REDIS_URL']);
const open: INestApplicationContext[] = [];
let tests = 0;

/** A key prefix that the instances of one test share, and no other test has. */
const prefix = (): string => `recipe-${process.pid}-${tests}:`;

function registration() {
  const store = redisStore(url, { commandTimeoutMs: 10_000 });
  return DistributedLockModule.forRoot({ store, keyPrefix: prefix() });
}

/** One instance of the service, on the Redis that all of them share. A busy machine may take its time for each command. */
async function instance({ imports = [], providers = [] }: ModuleMetadata): Promise<INestApplicationContext> {
  const module = await Test.createTestingModule({
    imports: [registration(), ...imports],
    providers,
  }).compile();
  open.push(await module.init());
  return module;
}

beforeEach(() => {
  tests += 1;
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((module) => module.close()));
  jest.restoreAllMocks();
});

/** What becomes of a call. A service also tells of its connection and of renewals. */
const OUTCOMES = new Set(['acquired', 'released', 'abandoned']);

describe('a cron job', () => {
  it('runs once although three instances start it, one of them when it is done', async () => {
    const printed = jest.spyOn(console, 'log').mockReturnValue(undefined);
    const ended: string[] = [];
    const start = async () => {
      const app = await instance({ imports: [ScheduleModule.forRoot()], providers: [NightlyReport] });
      app.get(LockService).events$.subscribe(({ type }) => OUTCOMES.has(type) && ended.push(type));
      const [job] = app.get(SchedulerRegistry).getCronJobs().values();
      return job!;
    };
    const [one, two, late] = await Promise.all([start(), start(), start()]);
    await Promise.all([one.fireOnTick(), two.fireOnTick()]);
    await until(() => ended.length === 3);
    await late.fireOnTick();
    await until(() => ended.length === 4);
    expect(ended.sort()).toEqual(['abandoned', 'abandoned', 'acquired', 'released']);
    expect(printed.mock.calls.map(([line]) => String(line))).toEqual(['page 1', 'page 2', 'page 3']);
  });
});

describe('a queue worker', () => {
  it('works on one job of a customer at a time, over all instances, and on those of others meanwhile', async () => {
    const { hostname: host, port } = new URL(url);
    const connection = { host, port: Number(port) };
    const metadata = {
      imports: [
        BullModule.forRoot({ connection, prefix: prefix() }),
        BullModule.registerQueue({ name: 'invoices' }),
      ],
      providers: [InvoiceWorker],
    };
    const events = new QueueEvents('invoices', { connection, prefix: prefix() });
    const [one] = await Promise.all([instance(metadata), instance(metadata)]);
    const queue = one!.get<Queue>(getQueueToken('invoices'));
    const mine = await one!.get(LockService).acquire('customer:busy');
    const busy = await queue.add('invoice', { customerId: 'busy' });
    await until(async () => (await busy.getState()) === 'delayed');
    const free = await queue.add('invoice', { customerId: 'free' });
    expect(await free.waitUntilFinished(events, 20_000)).toBe('one invoice at a time for free');
    expect(await busy.getState()).toBe('delayed');
    await mine.release();
    expect(await busy.waitUntilFinished(events, 20_000)).toBe('one invoice at a time for busy');
    await events.close();
  });
});

describe('a worker that finishes what a request started', () => {
  it('holds the lock of the request, under the same token, and no other request starts it meanwhile', async () => {
    const { hostname: host, port } = new URL(url);
    const connection = { host, port: Number(port) };
    const [locks, queue] = [registration(), BullModule.registerQueue({ name: 'exports' })];
    const imports = [locks, BullModule.forRoot({ connection, prefix: prefix() }), queue];
    const web = await startApp('express', {
      imports,
      controllers: [ExportController],
    });
    open.push(web.app);
    const start = () => web.fetch('/accounts/7/exports', { method: 'POST' });
    const granted: number[] = [];
    web.locks.events$.subscribe((event) => event.type === 'acquired' && granted.push(event.fencingToken));
    const accepted = await start();
    expect([accepted.status, accepted.headers.get('location')]).toEqual([202, '/exports/1']);
    expect((await start()).status).toBe(423);
    const written: number[] = [];
    let finish: (text: string) => void = () => undefined;
    const exports: Exports = {
      write(_account, fencingToken) {
        written.push(fencingToken);
        return new Promise((resolve) => (finish = resolve));
      },
    };
    await instance({
      imports: imports.slice(1),
      providers: [ExportWorker, { provide: Exports, useValue: exports }],
    });
    await until(() => written.length === 1);
    expect(written).toEqual(granted);
    expect((await start()).status).toBe(423);
    finish('exported');
    await until(async () => (await start()).status === 202);
    expect(granted[1]).toBeGreaterThan(granted[0] ?? Infinity);
  });
});

describe('with a database', () => {
  let database: PGlite;

  beforeAll(async () => {
    database = await openEmbeddedPostgres();
    await database.exec(`
      CREATE TABLE goods (id INT PRIMARY KEY, stock INT NOT NULL);
      ALTER TABLE goods ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
      INSERT INTO goods VALUES (1, 3), (2, 3);
      CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL);
      INSERT INTO accounts VALUES (1, 0);
    `);
  }, 60_000);
  afterAll(() => database.close());

  it('stock is sold as often as it is there, and a holder whose token is too small sells nothing', async () => {
    class Goods extends GoodsDatabase {
      override async query(sql: string, values: unknown[]): Promise<GoodsRow[]> {
        return (await database.query<GoodsRow>(sql, values)).rows;
      }
    }
    const { app, fetch } = await startApp('express', {
      controllers: [GoodsController],
      providers: [{ provide: GoodsDatabase, useClass: Goods }],
    });
    const buy = async (id: number): Promise<number> =>
      (await fetch(`/goods/${id}/purchase`, { method: 'POST' })).status;
    const statuses = await Promise.all(Array.from({ length: 5 }, () => buy(1)));
    expect(statuses.map(String).sort()).toEqual(['201', '201', '201', '409', '409']);
    await database.query('UPDATE goods SET fence = $1 WHERE id = 2', [Number.MAX_SAFE_INTEGER]);
    expect(await buy(2)).toBe(503);
    expect(await buy(3)).toBe(404);
    const { rows } = await database.query('SELECT id, stock FROM goods ORDER BY id');
    expect(rows).toEqual([
      { id: 1, stock: 0 },
      { id: 2, stock: 3 },
    ]);
    await app.close();
  });

  it('a transaction inside the lock commits before the release, and rolls back when the lock is lost', async () => {
    let steal: (() => Promise<void>) | undefined;
    class Sql extends AccountsDatabase {
      override transaction<T>(
        work: (query: (sql: string, values: unknown[]) => Promise<void>) => Promise<T>,
      ): Promise<T> {
        return database.transaction((it) =>
          work(async (sql, values) => {
            await it.query(sql, values);
            await steal?.();
          }),
        );
      }
    }
    const balance = async (): Promise<unknown> => (await database.query('SELECT balance FROM accounts')).rows;
    const app = await instance({ providers: [Accounts, { provide: AccountsDatabase, useClass: Sql }] });
    const [accounts, locks] = [app.get(Accounts), app.get(LockService)];
    const found: unknown[] = [];
    locks.events$.subscribe(({ type }) => type === 'released' && found.push(balance()));
    await accounts.deposit(1, 5);
    expect(await Promise.all(found)).toEqual([[{ balance: 5 }]]);
    steal = async () => {
      await locks.forceRelease('account:1');
      await until(() => locks.current() === undefined);
    };
    await expect(accounts.deposit(1, 5)).rejects.toBeInstanceOf(LockLostError);
    expect(await balance()).toEqual([{ balance: 5 }]);
  });
});

describe('a GraphQL mutation', () => {
  it('sells what there is to callers that come at once, and tells one whose wait is over by its code', async () => {
    const { url: server, locks, close } = await startGraphql(StockResolver, 'Apollo on Express');
    const run = async (mutation: string) =>
      (await (await ask(server, `mutation { ${mutation} }`)).json()) as {
        readonly data: Readonly<Record<string, number>> | null;
        readonly errors?: readonly { readonly extensions: { readonly code: string } }[];
      };
    expect((await run('deliver(delivery: { id: "42", count: 2 })')).data).toEqual({ deliver: 2 });
    const sold = await Promise.all([1, 2, 3, 4].map(() => run('buy(id: "42")')));
    expect(sold.flatMap(({ data }) => data?.['buy'] ?? []).toSorted((a, b) => a - b)).toEqual([0, 1]);
    const lock = await locks.acquire('goods:42');
    const delivery = run('deliver(delivery: { id: "42", count: 1 })');
    const { errors } = await run('buy(id: "42")');
    expect(errors?.map(({ extensions }) => extensions.code)).toEqual(['LOCK_WAIT_TIMEOUT']);
    await lock.release();
    expect((await delivery).data).toEqual({ deliver: 1 });
    await close();
  });
});

describe('a subscription', () => {
  it('holds its lock for as long as somebody listens', async () => {
    const { url: server, locks, close } = await startGraphql(EditorResolver, 'Apollo on Express');
    const client = createClient({ url: server.replace('http', 'ws'), webSocketImpl: WebSocket });
    const seen: unknown[] = [];
    const leave = client.subscribe(
      { query: 'subscription { editing }' },
      { next: ({ data }) => seen.push(data), error: () => undefined, complete: () => undefined },
    );
    await until(() => seen.length > 1);
    expect(seen[1]).toEqual({ editing: 1 });
    expect(await locks.tryAcquire('editor')).toBeNull();
    leave();
    await until(async () => (await locks.inspect('editor')) === null);
    await client.dispose();
    await close();
  });
});

describe('tests of your app', () => {
  it('without Nest give the locks to what they make by new', async () => {
    const printed = jest.spyOn(console, 'log').mockReturnValue(undefined);
    await import('./recipes/unit-test.js');
    expect(printed.mock.calls).toEqual([['paid 1'], [['order:1']], ['LOCK_WAIT_TIMEOUT']]);
  });

  it('need nothing but the module', async () => {
    const printed = jest.spyOn(console, 'log').mockReturnValue(undefined);
    await import('./recipes/tests-of-your-app.js');
    expect(printed.mock.calls).toEqual([['paid 1']]);
  });
});
