import 'reflect-metadata';
import { expect, it } from '@jest/globals';
import pg from 'pg';
import { startPostgresServer } from '#postgres-server';
import { describeWith } from '../stores/support/describe-with.js';
import { ownServer } from '../support/own-server.js';
import { LIMIT_MS, runProgram } from './support/run-program.js';

describeWith('postgres')('the demo with locks and goods in a Postgres of yours', () => {
  const server = ownServer(startPostgresServer);

  it(
    'plays all scenes, and the orders are there afterwards',
    async () => {
      const args = ['--stock', '30', '--buyers', '120'];
      const { status, stdout } = await runProgram('demo/main', args, { DATABASE_URL: server.url });
      expect(stdout).toContain('30 orders, 0 oversold, 90 buyers refused, 0 failed');
      expect(stdout).toMatch(/it noticed: (503 LOCK_LOST|409 STALE_TOKEN) to its buyer/);
      expect(stdout).toMatch(
        /which holds the lock: its lease runs for another \d+ ms[^]*bought \d+ ms later/,
      );
      expect(status).toBe(0);
      const client = new pg.Client(server.url);
      await client.connect();
      const { rows } = await client.query(`
        SELECT count(*)::integer AS orders FROM orders JOIN goods ON goods.id = goods_id WHERE stock = 0 AND offered = 30`);
      await client.end();
      expect(rows).toEqual([{ orders: 30 }]);
    },
    2 * LIMIT_MS,
  );
});
