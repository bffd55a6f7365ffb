import { afterAll, beforeAll } from '@jest/globals';
import pg from 'pg';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';
import { startPgbouncer } from '#pgbouncer';
import { startPostgresServer } from '#postgres-server';
import { describeBackEndCases } from '../../support/back-end-cases.js';
import { describeWith } from '../support/describe-with.js';
import { PATIENT } from '../../support/patient.js';
import { ownServer } from '../../support/own-server.js';

const SERIALIZABLE = { settings: { default_transaction_isolation: 'serializable' } };

describeWith('postgres')('a PostgreSQL server', () => {
  // The store asks for READ COMMITTED itself, where a connection is its own.
  const server = ownServer(() => startPostgresServer(SERIALIZABLE));

  describeLockStoreContract('postgres', () => ({ store: postgresStore(server.url, PATIENT) }));
});

describeWith('postgres')('a function of the application that runs one statement', () => {
  let pool: pg.Pool;
  afterAll(() => pool.end());
  const server = ownServer(() => startPostgresServer(SERIALIZABLE));
  beforeAll(() => {
    pool = new pg.Pool({ connectionString: server.url });
  });

  const query = (sql: string, parameters: unknown[]) => pool.query<object>(sql, parameters);
  describeBackEndCases('{ query }', () => ({ store: postgresStore({ query }, PATIENT) }));
});

describeWith('postgres', 'pgbouncer')('a pooler that gives each transaction another connection', () => {
  const server = ownServer(startPostgresServer);
  const pooler = ownServer(() => startPgbouncer(server, { settings: { default_pool_size: 5 } }));

  describeBackEndCases('pgbouncer', () => ({ store: postgresStore(pooler.url, PATIENT) }));
});
