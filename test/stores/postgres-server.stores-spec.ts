import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { startPostgresServer, type PostgresServer } from '#postgres-server';
import { until } from '#until';
import { ClockShift, missingShift } from '../../chaos/index.mjs';
import { within } from '../../apps/seckill/src/preflight/within.js';
import { describeWith } from './support/describe-with.js';

const HOUR_MS = 3_600_000;

const whereClocksShift = missingShift() ? describe.skip : describe;

/** A program that starts a server, freezes it, says where it was, and waits. */
const PROGRAM = `
  import { startPostgresServer } from '#postgres-server';
  const server = await startPostgresServer();
  await server.pause();
  console.log(server.port);
  setInterval(() => {}, 1000);
`;

const listens = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true));
    socket.once('error', () => resolve(false)).once('connect', () => socket.destroy());
  });

describeWith('postgres')('the Postgres server for tests', () => {
  let server: PostgresServer;

  beforeAll(async () => {
    server = await startPostgresServer({ settings: { max_connections: 12 } });
  }, 60_000);
  afterAll(() => server?.stop());

  const connected = async (): Promise<pg.Client> => {
    const client = new pg.Client(server.url);
    client.on('error', () => {});
    await client.connect();
    return client;
  };

  it('answers nothing while it is paused, on old connections and new ones, and all of it once resumed', async () => {
    const client = await connected();
    await server.pause();
    const old = client.query('SELECT 1 AS one');
    const another = connected();
    await expect(within(300, Promise.race([old, another]))).rejects.toThrow('no answer within');
    await server.resume();
    expect((await old).rows).toEqual([{ one: 1 }]);
    await Promise.all([client.end(), (await another).end()]);
  });

  it('keeps what was committed, and only that, when it is killed in the middle of a statement', async () => {
    const [client, other] = [await connected(), await connected()];
    await client.query('CREATE TABLE kept (id int)');
    await client.query('INSERT INTO kept VALUES (1)');
    await other.query('BEGIN');
    await other.query('INSERT INTO kept VALUES (2)');
    const sleeping = client.query('SELECT pg_sleep(60)').catch(() => 'ended');
    await server.kill();
    expect(await within(5_000, sleeping)).toBe('ended');
    expect(await listens(server.port)).toBe(false);
    await server.restart();
    const later = await connected();
    expect((await later.query('SELECT id FROM kept')).rows).toEqual([{ id: 1 }]);
    await later.end();
  });

  it('is started with the settings given', async () => {
    const client = await connected();
    expect((await client.query('SHOW max_connections')).rows).toEqual([{ max_connections: '12' }]);
    await client.end();
  });

  it('can be killed while it is paused, and be stopped twice', async () => {
    const second = await startPostgresServer();
    await second.pause();
    await second.restart();
    const client = new pg.Client(second.url);
    await client.connect();
    await client.end();
    await second.pause();
    await second.stop();
    await second.stop();
    expect(await listens(second.port)).toBe(false);
  });

  it('ends with a program that is killed with SIGKILL, even paused', async () => {
    const program = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM]);
    const output: Buffer = await new Promise((resolve) => program.stdout.once('data', resolve));
    const port = Number(output.toString());
    expect(await listens(port)).toBe(true);
    program.kill('SIGKILL');
    await until(async () => !(await listens(port)));
  });
});

whereClocksShift('a Postgres server whose time of day is shifted', () => {
  it('tells the shifted time on connections that are open', async () => {
    const shift = new ClockShift();
    const shifted = await startPostgresServer({ env: shift.env });
    const client = new pg.Client(shifted.url);
    await client.connect();
    const hoursAhead = async () => {
      const { rows } = await client.query('SELECT clock_timestamp() AS now');
      return (rows[0].now.getTime() - Date.now()) / HOUR_MS;
    };
    expect(await hoursAhead()).toBeCloseTo(0);
    shift.set(-HOUR_MS);
    expect(await hoursAhead()).toBeCloseTo(-1);
    await client.end();
    await shifted.stop();
    shift.remove();
  });
});
