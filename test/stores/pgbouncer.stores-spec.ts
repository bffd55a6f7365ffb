import { afterAll, beforeAll, expect, it } from '@jest/globals';
import pg from 'pg';
import { startPgbouncer, type Pgbouncer, type PgbouncerOptions } from '#pgbouncer';
import { startPostgresServer, type PostgresServer } from '#postgres-server';
import { within } from '../../apps/seckill/src/preflight/within.js';
import { describeWith } from './support/describe-with.js';

describeWith('postgres', 'pgbouncer')('PgBouncer for tests', () => {
  let postgres: PostgresServer;

  beforeAll(async () => {
    postgres = await startPostgresServer();
  }, 60_000);
  afterAll(() => postgres?.stop());

  /** One connection to the server, for as many clients as come. */
  async function withPooler(
    mode: PgbouncerOptions['mode'],
    tests: (pooler: Pgbouncer, connected: () => Promise<pg.Client>) => Promise<void>,
  ) {
    const pooler = await startPgbouncer(postgres, { mode, settings: { default_pool_size: 1 } });
    const clients: pg.Client[] = [];
    try {
      await tests(pooler, async () => {
        const client = new pg.Client(pooler.url);
        client.on('error', () => {});
        clients.push(client);
        await client.connect();
        return client;
      });
    } finally {
      await Promise.all(clients.map((client) => client.end()));
      await pooler.stop();
    }
  }

  const backendOf = async (client: pg.Client): Promise<number> =>
    (await client.query('SELECT pg_backend_pid() AS pid')).rows[0].pid;

  it('in transaction mode lends the connection of the server to one client after the other', () =>
    withPooler('transaction', async (_pooler, connected) => {
      const [one, other] = [await connected(), await connected()];
      expect(await backendOf(one)).toBe(await backendOf(other));
      await one.query('BEGIN');
      const second = backendOf(other);
      await expect(within(300, second)).rejects.toThrow('no answer within');
      await one.query('COMMIT');
      await second;
    }));

  it('in transaction mode delivers no notification to the client that listens', () =>
    withPooler('transaction', async (_pooler, connected) => {
      const [one, other] = [await connected(), await connected()];
      const told: string[] = [];
      one.on('notification', ({ payload }) => told.push(payload ?? ''));
      await one.query('LISTEN news');
      await other.query(`NOTIFY news, 'hello'`);
      await one.query('SELECT 1');
      expect(told).toEqual([]);
    }));

  it('in session mode keeps the connection for its first client until that one leaves', () =>
    withPooler('session', async (_pooler, connected) => {
      const [one, other] = [await connected(), connected()];
      await backendOf(one);
      await expect(within(300, other.then(backendOf))).rejects.toThrow('no answer within');
      await one.end();
      await backendOf(await other);
    }));

  it('answers nothing while it is paused, and new clients after a restart', () =>
    withPooler('transaction', async (pooler, connected) => {
      const client = await connected();
      await pooler.pause();
      const paused = backendOf(client);
      await expect(within(300, paused)).rejects.toThrow('no answer within');
      await pooler.resume();
      await paused;
      await pooler.restart();
      await backendOf(await connected());
    }));
});
