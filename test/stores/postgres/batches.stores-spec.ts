import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { startPostgresServer, type PostgresServer } from '#postgres-server';
import pg from 'pg';
import { closeServices, openServiceOn } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';

const KEYS = Array.from({ length: 64 }, (_, i) => `key-${i}`);

describeWith('postgres')('one process with many keys', () => {
  let server: PostgresServer;
  let client: pg.Client;
  beforeAll(async () => {
    server = await startPostgresServer();
    client = new pg.Client(server.url);
    await client.connect();
  });
  afterAll(async () => {
    await closeServices();
    await client.end();
    await server.stop();
  });

  it('takes the locks of one turn by one statement, and releases them by one', async () => {
    let statements = 0;
    const query = (sql: string, parameters: unknown[]) => {
      statements++;
      return client.query<object>(sql, parameters);
    };
    // Without notifications the store would poll: a statement for locks that are held for a quarter of a second.
    const listen = () => Promise.resolve(() => undefined);
    const service = openServiceOn(postgresStore({ query, listen }));
    await (await service.acquire('first')).release();
    statements = 0;
    const locks = await Promise.all(KEYS.map((key) => service.acquire(key)));
    expect(statements).toBe(1);
    await Promise.all(locks.map((lock) => lock.release()));
    expect(statements).toBe(2);
  });
});
