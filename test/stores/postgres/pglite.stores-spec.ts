import { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, describe } from '@jest/globals';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { describeBackEndCases } from '../../support/back-end-cases.js';

describe('PGlite, in this process', () => {
  const database = new PGlite();
  // Its start takes longer than a statement may.
  beforeAll(() => database.waitReady);
  afterAll(() => database.close());

  describeBackEndCases('PGlite', () => ({
    store: postgresStore(database, { commandTimeoutMs: 5000 }),
  }));
});
