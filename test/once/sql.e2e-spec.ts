import 'reflect-metadata';
import type { PGlite } from '@electric-sql/pglite';
import { afterAll, afterEach, beforeAll } from '@jest/globals';
import { openEmbeddedPostgres } from '#embedded-postgres';
import { closeServices } from '../support/lock-services.js';
import { describeSqlResults } from './support/sql-results.contract.js';

let database: PGlite;
beforeAll(async () => {
  database = await openEmbeddedPostgres();
}, 60_000);
afterEach(closeServices);
afterAll(() => database?.close());

/** On the embedded Postgres, where transactions take turns; test/stores/once.stores-spec.ts is the same on real servers. */
describeSqlResults('the embedded Postgres', { dialect: 'postgres', interleaves: false }, () => ({
  query: async (sql, parameters) => database.query(sql, parameters),
  transaction: (work) =>
    database.transaction((tx) => work(async (sql, parameters) => tx.query(sql, parameters))),
}));
