import 'reflect-metadata';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { DistributedLockModule } from 'nestjs-distributed-lock';
import pg from 'pg';
import { DataSource } from 'typeorm';
import { startEmbeddedDatabase, type EmbeddedDatabase } from '../../apps/seckill/src/embedded-database.js';
import { TypeormSale, typeormQuery } from '../docs/recipes/fenced-typeorm.js';
import { HeldSale } from '../docs/recipes/held-sale.js';
import { describeFencedTransactions } from './support/fenced-transactions.contract.js';
import { openTransactions } from './support/open-transactions.js';

let database: EmbeddedDatabase;
beforeAll(async () => {
  database = await startEmbeddedDatabase();
}, 60_000);
afterAll(() => database?.close());

/** On the embedded Postgres, where transactions take turns; `npm run test:stores` is the same on a real server. */
for (const [name, open] of Object.entries(openTransactions)) {
  describeFencedTransactions(name, () => ({ url: database.url, interleaves: false }), open);
}

describe('the recipes of transactions', () => {
  it('are providers as they stand: Nest injects the lock service and the connection', async () => {
    const connections = [DataSource, pg.Pool].map((provide) => ({ provide, useValue: {} }));
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot()],
      providers: [TypeormSale, HeldSale, ...connections],
    }).compile();
    expect(module.get(TypeormSale)).toMatchObject({ locks: expect.anything(), source: expect.anything() });
    expect(module.get(HeldSale)).toMatchObject({ locks: expect.anything(), pool: expect.anything() });
    await module.close();
  });
});

describe('the recipe of TypeORM', () => {
  it('refuses a manager without a transaction, whose statements would take connections of their own', async () => {
    const source = new DataSource({ type: 'postgres', url: database.url });
    await expect(typeormQuery(source.manager)('SELECT 1', [])).rejects.toThrow(
      'the manager of a transaction',
    );
  });
});
