import { afterAll, beforeAll } from '@jest/globals';
import pg from 'pg';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';
import { startPgbouncer, type Pgbouncer } from '#pgbouncer';
import { startPostgresServer, type PostgresServer } from '#postgres-server';
import { describeBackEndCases } from '../../support/back-end-cases.js';
import { describeWith } from '../support/describe-with.js';
import { PATIENT } from '../support/patient.js';

describeWith('postgres')('a PostgreSQL server', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgresServer();
  });
  afterAll(() => server.stop());

  describeLockStoreContract('postgres', () => ({ store: postgresStore(server.url, PATIENT) }));
});

describeWith('postgres')('a function of the application that runs one statement', () => {
  let server: PostgresServer;
  let pool: pg.Pool;
  beforeAll(async () => {
    server = await startPostgresServer({ settings: { default_transaction_isolation: 'serializable' } });
    pool = new pg.Pool({ connectionString: server.url });
  });
  afterAll(async () => {
    await pool.end();
    await server.stop();
  });

  const query = (sql: string, parameters: unknown[]) => pool.query<object>(sql, parameters);
  describeBackEndCases('{ query }', () => ({ store: postgresStore({ query }, PATIENT) }));
});

describeWith('postgres')('a PostgreSQL server whose transactions are serializable', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgresServer({ settings: { default_transaction_isolation: 'serializable' } });
  });
  afterAll(() => server.stop());

  describeBackEndCases('serializable', () => ({ store: postgresStore(server.url, PATIENT) }));
});

describeWith('postgres', 'pgbouncer')('a pooler that gives each transaction another connection', () => {
  let server: PostgresServer;
  let pooler: Pgbouncer;
  beforeAll(async () => {
    server = await startPostgresServer();
    pooler = await startPgbouncer(server, { settings: { default_pool_size: 5 } });
  });
  afterAll(async () => {
    await pooler.stop();
    await server.stop();
  });

  describeBackEndCases('pgbouncer', () => ({ store: postgresStore(pooler.url, PATIENT) }));
});
