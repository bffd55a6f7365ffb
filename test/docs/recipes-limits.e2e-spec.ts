import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { PGlite } from '@electric-sql/pglite';
import type { INestApplicationContext, ModuleMetadata } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { DistributedLockModule, memoryStore } from 'nestjs-distributed-lock';
import { ManualClock } from 'nestjs-distributed-lock/testing';
import { openEmbeddedPostgres } from '#embedded-postgres';
import { until } from '#until';
import { startApp } from '../nest/integration/stage.js';
import { Bank, BankApi } from './recipes/api-limit.js';
import { Documents, Drive } from './recipes/folder-and-limits.js';
import { Plans, TenantController, Work } from './recipes/tenant-limit.js';
import { Database, Transfers } from './recipes/two-accounts.js';
import { Exchange, LastRates, type Rate, RateController } from './recipes/last-value.js';
import { Cache, Reports, Source } from './recipes/single-flight.js';

const open: INestApplicationContext[] = [];
let store = memoryStore();
let clock = new ManualClock();

async function instance(metadata: ModuleMetadata): Promise<INestApplicationContext> {
  const imports = [DistributedLockModule.forRoot({ store, clock })];
  const module = await Test.createTestingModule({ imports, ...metadata }).compile();
  open.push(await module.init());
  return module;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((module) => module.close()));
  [store, clock] = [memoryStore(), new ManualClock()];
});

/** Calls that end when the test says so. */
class Calls {
  readonly sent: string[] = [];
  private readonly ends: (() => void)[] = [];

  get atWork(): number {
    return this.ends.length;
  }

  begin(name: string): Promise<string> {
    this.sent.push(name);
    return new Promise((resolve) => this.ends.push(() => resolve(name)));
  }

  endOne(): void {
    this.ends.shift()?.();
  }
}

describe('a limit towards an API', () => {
  const two = async (calls: Calls): Promise<[Bank, Bank]> => {
    const api = { provide: BankApi, useValue: { post: (path: string) => calls.begin(path) } };
    const apps = await Promise.all([
      instance({ providers: [Bank, api] }),
      instance({ providers: [Bank, api] }),
    ]);
    return [apps[0].get(Bank), apps[1].get(Bank)];
  };

  it('is one for all instances, and a batch takes the place of three payments', async () => {
    const calls = new Calls();
    const [one, other] = await two(calls);
    const paid = [1, 2, 3, 4].map((i) => (i % 2 ? one : other).pay(`${i}`));
    await until(() => calls.atWork === 4);
    paid.push(one.payAll(['5', '6', '7']));
    await clock.settle();
    expect(calls.sent).not.toContain('/batches');
    calls.endOne();
    await clock.settle();
    expect(calls.sent).not.toContain('/batches'); // needs three of the five
    calls.endOne();
    await until(() => calls.sent.includes('/batches'));
    while (calls.atWork > 0) calls.endOne();
    await Promise.all(paid);
  });

  it('of so many a second lets no more begin within any second', async () => {
    const calls = new Calls();
    const [one, other] = await two(calls);
    const sent = Array.from({ length: 12 }, (_, i) => (i % 2 ? one : other).mail(`${i}`));
    const begunAfter = async (ms: number): Promise<number> => {
      await clock.advance(ms);
      while (calls.atWork > 0) calls.endOne(); // each mail is sent at once
      await clock.settle();
      return calls.sent.length;
    };
    await clock.settle();
    const begun = [await begunAfter(0), await begunAfter(999), await begunAfter(10), await begunAfter(1000)];
    expect(begun).toEqual([5, 5, 10, 12]);
    await Promise.all(sent);
  });
});

describe('a limit for each tenant', () => {
  it('does not count the calls of others, and is as large as the plan says', async () => {
    const [exports, imports] = [new Calls(), new Calls()];
    const { app, fetch } = await startApp('express', {
      controllers: [TenantController],
      providers: [
        {
          provide: Work,
          useValue: { export: (t: string) => exports.begin(t), import: (t: string) => imports.begin(t) },
        },
        { provide: Plans, useValue: { importsAtOnce: async (tenant: string) => (tenant === 'big' ? 3 : 1) } },
      ],
    });
    const post = async (path: string, tenant: string): Promise<number> =>
      (await fetch(path, { method: 'POST', headers: { 'x-tenant': tenant } })).status;

    const exported = ['big', 'big', 'small'].map((tenant) => post('/exports', tenant));
    await until(() => exports.atWork === 3);
    expect(await post('/exports', 'big')).toBe(429);
    const imported = ['big', 'big', 'big', 'small'].map((tenant) => post('/imports', tenant));
    await until(() => imports.atWork === 4);
    expect([await post('/imports', 'big'), await post('/imports', 'small')]).toEqual([423, 423]);

    while (exports.atWork > 0) exports.endOne();
    while (imports.atWork > 0) imports.endOne();
    expect(await Promise.all([...exported, ...imported])).toEqual(Array(7).fill(201));
    await app.close();
  });
});

describe('a folder and its files, and several limits', () => {
  const two = async (calls: Calls): Promise<[Documents, Documents]> => {
    const begin = (...parts: string[]) => calls.begin(parts.join(' '));
    const drive = { provide: Drive, useValue: { write: begin, move: begin, export: begin } };
    const apps = await Promise.all([
      instance({ providers: [Documents, drive] }),
      instance({ providers: [Documents, drive] }),
    ]);
    return [apps[0].get(Documents), apps[1].get(Documents)];
  };

  it('writers of different files run together, and one who moves the folder runs alone', async () => {
    const calls = new Calls();
    const [one, other] = await two(calls);
    const writes = [one.write('f', '1', 'a'), other.write('f', '2', 'b')];
    await until(() => calls.atWork === 2);
    const moves = one.move('f', 'g');
    await clock.settle();
    calls.endOne();
    await clock.settle();
    expect(calls.sent).toEqual(['f/1 a', 'f/2 b']);
    calls.endOne();
    await clock.settle();
    const later = other.write('f', '3', 'c');
    await clock.settle();
    expect(calls.sent.slice(2)).toEqual(['f g']);
    calls.endOne();
    await clock.settle();
    expect(calls.sent.slice(3)).toEqual(['f/3 c']);
    calls.endOne();
    await Promise.all([...writes, moves, later]);
  });

  it('one export runs for each customer, and ten in all', async () => {
    const calls = new Calls();
    const [one, other] = await two(calls);
    const exports_ = Array.from({ length: 24 }, (_, i) => (i % 2 ? one : other).export(`${i % 12}`));
    await until(() => calls.atWork === 10);
    await clock.settle();
    expect(new Set(calls.sent).size).toBe(10);
    expect(calls.atWork).toBe(10);
    await expect(one.exportNow('99', 2)).rejects.toMatchObject({ code: 'LOCK_WAIT_TIMEOUT', key: 'exports' });
    while (calls.sent.length < 24 || calls.atWork > 0) {
      calls.endOne();
      await clock.settle();
    }
    await Promise.all(exports_);
    const now = other.exportNow('99', 2);
    await until(() => calls.atWork === 1);
    calls.endOne();
    expect(await now).toBe('99');
  });
});

describe('two accounts', () => {
  let database: PGlite;
  beforeAll(async () => {
    database = await openEmbeddedPostgres();
    await database.exec(`
      CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL);
      INSERT INTO accounts VALUES (1, 100), (2, 100);
    `);
  }, 30_000);
  afterAll(() => database.close());

  it('are debited and credited by transfers in opposite directions, none of which waits for ever', async () => {
    class Sql extends Database {
      override transaction<T>(work: Parameters<Database['transaction']>[0]): Promise<T> {
        return database.transaction((tx) =>
          work(async (sql, values) => (await tx.query<{ balance: number }>(sql, values)).rows),
        ) as Promise<T>;
      }
    }
    const providers = [Transfers, { provide: Database, useClass: Sql }];
    const apps = await Promise.all([instance({ providers }), instance({ providers })]);
    const [one, other] = apps.map((app) => app.get(Transfers)) as [Transfers, Transfers];
    const opposite = Array.from({ length: 10 }, () => [one.move(1, 2, 5), other.move(2, 1, 7)]);
    await Promise.all(opposite.flat());
    const balances = async () => (await database.query('SELECT * FROM accounts ORDER BY id')).rows;
    const expected = [
      { id: 1, balance: 120 },
      { id: 2, balance: 80 },
    ];
    expect(await balances()).toEqual(expected);
    await expect(one.move(2, 1, 81)).rejects.toThrow('There is not enough money');
    await one.move(1, 1, 5); // the same key twice is one key
    expect(await balances()).toEqual(expected);
  });
});

describe('the last value', () => {
  it('is the answer while another request fetches a new one, and 423 while there is none', async () => {
    const rates = new Map<string, Rate>();
    const answers: ((value: number) => void)[] = [];
    const last = {
      get: async (currency: string) => rates.get(currency),
      set: async (rate: Rate) => void rates.set(rate.currency, rate),
    };
    const rateOf = (): Promise<number> => new Promise((resolve) => answers.push(resolve));
    const { app, fetch } = await startApp('express', {
      controllers: [RateController],
      providers: [
        { provide: LastRates, useValue: last },
        { provide: Exchange, useValue: { rateOf } },
      ],
    });
    const first = fetch('/rates/eur');
    await until(() => answers.length === 1);
    expect((await fetch('/rates/eur')).status).toBe(423);
    answers[0]!(1.1);
    expect(await (await first).json()).toEqual({ currency: 'eur', value: 1.1 });

    const second = fetch('/rates/eur');
    await until(() => answers.length === 2);
    expect(await (await fetch('/rates/eur')).json()).toEqual({ currency: 'eur', value: 1.1 });
    answers[1]!(1.2);
    expect(await (await second).json()).toEqual({ currency: 'eur', value: 1.2 });
    await app.close();
  });
});

describe('a single flight', () => {
  it('computes a value once for the callers of all instances, and a failure for one of them only', async () => {
    const [store, cached] = [memoryStore(), new Map<string, string>()];
    let computed = 0;
    const cache = {
      get: async (key: string) => cached.get(key),
      set: async (key: string, value: string) => void cached.set(key, value),
    };
    const compute = async (id: string): Promise<string> => {
      computed += 1;
      if (computed === 1) throw new Error('the source is away');
      return `report ${id}, computed ${computed} times`;
    };
    const start = async () =>
      Test.createTestingModule({
        imports: [DistributedLockModule.forRoot({ store })],
        providers: [Reports, { provide: Cache, useValue: cache }, { provide: Source, useValue: { compute } }],
      }).compile();
    const apps = await Promise.all([start(), start()]);
    await Promise.all(apps.map((app) => app.init()));
    const calls = Array.from({ length: 20 }, (_, i) => apps[i % 2]!.get(Reports).report('7'));
    const settled = await Promise.allSettled(calls);
    expect(settled.filter(({ status }) => status === 'rejected')).toHaveLength(1);
    expect(computed).toBe(2);
    expect(await apps[0].get(Reports).report('7')).toBe('report 7, computed 2 times');
    await Promise.all(apps.map((app) => app.close()));
  });
});
