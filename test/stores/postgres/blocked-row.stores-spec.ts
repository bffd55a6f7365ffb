import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { startPostgresServer, type PostgresServer } from '#postgres-server';
import pg from 'pg';
import { closeServices, openServiceOn } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';

describeWith('postgres')('while a transaction keeps the row of one key locked', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgresServer();
  });
  afterAll(async () => {
    await closeServices();
    await server.stop();
  });

  it('a process that waits for this key goes on with its other keys, and is granted after the commit', async () => {
    const [holder, other] = [1, 2].map(() => openServiceOn(postgresStore(server.url)));
    const lock = await holder!.acquire('blocked');
    const transaction = new pg.Client(server.url);
    await transaction.connect();
    await transaction.query('BEGIN');
    await transaction.query(`SELECT FROM nest_lock WHERE name = 'blocked' FOR SHARE`);
    const waiting = other!.acquire('blocked', { waitMs: 30_000 });
    const released = lock.release();
    const until = performance.now() + 2500;
    let slowestMs = 0;
    while (performance.now() < until) {
      const before = performance.now();
      await other!.withLock('another key', () => undefined);
      slowestMs = Math.max(slowestMs, performance.now() - before);
    }
    // A step waits for one statement that waits for the row, not for the commit.
    expect(slowestMs).toBeLessThan(500);
    await transaction.query('COMMIT');
    await transaction.end();
    await released;
    await (await waiting).release();
  }, 30_000);
});
