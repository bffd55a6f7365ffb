import { afterAll, beforeAll } from '@jest/globals';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';
import { startPostgresServer, type PostgresServer } from '#postgres-server';
import { describeWith } from '../support/describe-with.js';

describeWith('postgres')('a PostgreSQL server', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgresServer();
  });
  afterAll(() => server.stop());

  describeLockStoreContract('postgres', () => ({ store: postgresStore(server.url) }));
});
