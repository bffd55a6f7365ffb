import { afterEach, expect, it } from '@jest/globals';
import pg from 'pg';
import { startPostgresServer, startStandby, type PostgresServer } from '#postgres-server';
import { until } from '#until';
import { within } from '../../apps/seckill/src/preflight/within.js';
import { describeWith } from './support/describe-with.js';

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

async function primaryWithTable(): Promise<PostgresServer> {
  const primary = await startPostgresServer({ settings: { max_connections: 12 } });
  stops.push(() => primary.stop());
  await rowsOf(primary, 'CREATE TABLE kept (id int)');
  await rowsOf(primary, 'INSERT INTO kept VALUES (1)');
  return primary;
}

async function standbyOf(primary: PostgresServer, synchronous: boolean) {
  const standby = await startStandby(primary, { synchronous });
  stops.push(() => standby.stop());
  return standby;
}

async function rowsOf(server: { readonly url: string }, text: string): Promise<unknown[]> {
  const client = new pg.Client(server.url);
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

describeWith('postgres')('a standby', () => {
  it('has what its primary commits, and refuses writes until it is promoted', async () => {
    const primary = await primaryWithTable();
    const standby = await standbyOf(primary, false);
    await rowsOf(primary, 'INSERT INTO kept VALUES (2)');
    await until(async () => (await rowsOf(standby, 'SELECT id FROM kept')).length === 2);
    await expect(rowsOf(standby, 'INSERT INTO kept VALUES (3)')).rejects.toMatchObject({ code: '25006' });
    await primary.kill();
    await standby.promote();
    await rowsOf(standby, 'INSERT INTO kept VALUES (3)');
    await standby.restart();
    expect(await rowsOf(standby, 'SELECT id FROM kept')).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }]);
  });

  it('that is synchronous holds up each commit of its primary until it has it', async () => {
    const primary = await primaryWithTable();
    const standby = await standbyOf(primary, true);
    await standby.pause();
    const write = rowsOf(primary, 'INSERT INTO kept VALUES (2)');
    await expect(within(300, write)).rejects.toThrow('no answer within');
    await standby.resume();
    await write;
    await primary.kill();
    await standby.promote();
    expect(await rowsOf(standby, 'SELECT id FROM kept')).toEqual([{ id: 1 }, { id: 2 }]);
  });

  it('that is not synchronous holds up no commit, and does not have those of the time when it was down', async () => {
    const primary = await primaryWithTable();
    const standby = await standbyOf(primary, false);
    await standby.kill();
    await rowsOf(primary, 'INSERT INTO kept VALUES (2)');
    await primary.kill();
    await standby.restart();
    await standby.promote();
    expect(await rowsOf(standby, 'SELECT id FROM kept')).toEqual([{ id: 1 }]);
  });
});
