import { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, describe } from '@jest/globals';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';

describe('PGlite, in this process', () => {
  const database = new PGlite();
  // Its start takes longer than a statement may.
  beforeAll(() => database.waitReady);
  afterAll(() => database.close());

  describeLockStoreContract('postgres', () => ({
    store: postgresStore(database, { commandTimeoutMs: 5000 }),
  }));
});
