import type { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, describe } from '@jest/globals';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { openEmbeddedPostgres } from '#embedded-postgres';
import { describeBackEndCases } from '../../support/back-end-cases.js';

describe('PGlite, in this process', () => {
  let database: PGlite;
  // Its start takes longer than a statement may.
  beforeAll(async () => {
    database = await openEmbeddedPostgres();
  });
  afterAll(() => database.close());

  describeBackEndCases('PGlite', () => ({
    store: postgresStore(database, { commandTimeoutMs: 5000 }),
  }));
});
