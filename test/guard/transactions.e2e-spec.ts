import 'reflect-metadata';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { DataSource } from 'typeorm';
import { startDatabaseServer, type DatabaseServer } from '../../apps/seckill/src/demo/database-server.js';
import { typeormQuery } from '../docs/recipes/fenced-typeorm.js';
import { describeFencedTransactions } from './support/fenced-transactions.contract.js';
import { openTransactions } from './support/open-transactions.js';

let database: DatabaseServer;
beforeAll(async () => {
  database = await startDatabaseServer();
}, 60_000);
afterAll(() => database?.close());

/** On the embedded Postgres, where transactions take turns; `npm run test:stores` is the same on a real server. */
for (const [name, open] of Object.entries(openTransactions)) {
  describeFencedTransactions(name, () => ({ url: database.url, interleaves: false }), open);
}

describe('the recipe of TypeORM', () => {
  it('refuses a manager without a transaction, whose statements would take connections of their own', async () => {
    const source = new DataSource({ type: 'postgres', url: database.url });
    await expect(typeormQuery(source.manager)('SELECT 1', [])).rejects.toThrow(
      'the manager of a transaction',
    );
  });
});
