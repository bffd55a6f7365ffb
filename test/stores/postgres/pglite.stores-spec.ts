import { PGlite } from '@electric-sql/pglite';
import { afterAll, describe } from '@jest/globals';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';

describe('PGlite, in this process', () => {
  const database = new PGlite();
  afterAll(() => database.close());

  describeLockStoreContract('postgres', () => ({ store: postgresStore(database) }));
});
