import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import mysql from 'mysql2/promise';
import { findMariadbServer, startMariadbServer, type MariadbServer } from '#mariadb-server';
import { within } from '../../../apps/seckill/src/preflight/within.js';

function missing(): string | undefined {
  try {
    findMariadbServer();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

(missing() ? describe.skip : describe)('the MariaDB server for tests', () => {
  let server: MariadbServer;

  beforeAll(async () => {
    server = await startMariadbServer();
  }, 60_000);
  afterAll(() => server?.stop());

  it('answers nothing while it is paused, and keeps what was committed when it is killed', async () => {
    const client = await mysql.createConnection(server.url);
    client.on('error', () => undefined);
    await client.query('CREATE TABLE kept (id int)');
    await client.query('INSERT INTO kept VALUES (1)');
    await server.pause();
    const asked = client.query('SELECT 1').catch(() => 'ended');
    await expect(within(300, asked)).rejects.toThrow('no answer within');
    await server.resume();
    expect(await asked).not.toBe('ended');
    await server.kill();
    await server.restart();
    const other = await mysql.createConnection(server.url);
    expect(await other.query('SELECT id FROM kept')).toMatchObject([[{ id: 1 }], expect.anything()]);
    await other.end();
  }, 60_000);
});
