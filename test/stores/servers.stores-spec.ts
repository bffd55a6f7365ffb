import { spawn } from 'node:child_process';
import { afterEach, describe, expect, it } from '@jest/globals';
import mysql from 'mysql2/promise';
import pg from 'pg';
import { startMariadbServer } from '#mariadb-server';
import { startMysqlServer } from '#mysql-server';
import { startPostgresServer, startStandby } from '#postgres-server';
import type { ServerName } from '#servers';
import { until } from '#until';
import { ClockShift, missingShift } from '../../verification/chaos/index.mjs';
import { within } from '../support/within.js';
import { isListening, type OwnServer } from '../../tools/own-server/index.mjs';
import { describeWith } from './support/describe-with.js';

// What these servers do for no other suite. That they freeze, die, restart with their data, pool and are cut off as they
// are told, the suites about such faults show: they fail where nothing has happened.

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

type Rows = readonly Readonly<Record<string, any>>[];
type Query = (sql: string) => Promise<Rows>;

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop();
});

async function started<Server extends Pick<OwnServer, 'stop'>>(start: Promise<Server>): Promise<Server> {
  const server = await start;
  stops.push(() => server.stop());
  return server;
}

async function queryPostgres(url: string): Promise<Query> {
  const client = new pg.Client(url);
  // Ends with its server.
  client.on('error', () => {});
  stops.push(() => client.end().catch(() => undefined));
  await client.connect();
  return async (sql) => (await client.query(sql)).rows as Rows;
}

async function queryMysql(url: string): Promise<Query> {
  const connection = await mysql.createConnection(url);
  stops.push(() => connection.destroy());
  return async (sql) => (await connection.query(sql))[0] as Rows;
}

const SQL = [
  ['postgres', startPostgresServer, queryPostgres, 'extract(epoch FROM clock_timestamp())'],
  ['mariadb', startMariadbServer, queryMysql, 'CAST(UNIX_TIMESTAMP() AS DOUBLE)'],
  ['mysql', startMysqlServer, queryMysql, 'CAST(UNIX_TIMESTAMP() AS DOUBLE)'],
] as const satisfies readonly (readonly [ServerName, unknown, unknown, string])[];

for (const [name, start, connect, seconds] of SQL) {
  describeWith(name)(`the ${name} server for tests`, () => {
    it('is what its name says, with the settings given', async () => {
      const server = await started(start({ settings: { max_connections: 14 } }));
      const query = await connect(server.url);
      const [version] = await query('SELECT version() AS is_of');
      expect(/MariaDB|PostgreSQL/.exec(version!['is_of'])?.[0].toLowerCase() ?? 'mysql').toMatch(name);
      const asked = name === 'postgres' ? `current_setting('max_connections')` : '@@max_connections';
      expect(Number((await query(`SELECT ${asked} AS most`))[0]!['most'])).toBe(14);
    }, 60_000);

    whereClocksShift('whose time of day is shifted', () => {
      it('tells the shifted time on connections that are open', async () => {
        const shift = new ClockShift();
        stops.push(() => shift.remove());
        const server = await started(start({ env: shift.env }));
        const query = await connect(server.url);
        const hoursAhead = async () => {
          const [row] = await query(`SELECT ${seconds} AS now`);
          return (Number(row!['now']) * 1000 - Date.now()) / HOUR_MS;
        };
        expect(await hoursAhead()).toBeCloseTo(0);
        shift.set(-HOUR_MS);
        expect(await hoursAhead()).toBeCloseTo(-1);
      }, 60_000);
    });
  });
}

describeWith('postgres')('a Postgres server for tests', () => {
  it('can be killed while it is paused, and be stopped twice', async () => {
    const server = await startPostgresServer();
    await server.pause();
    await server.restart();
    await queryPostgres(server.url);
    await server.pause();
    await server.stop();
    await server.stop();
    expect(await isListening(server.port)).toBe(false);
  });

  it('ends with a program that is killed with SIGKILL, even paused', async () => {
    const program = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM]);
    const output: Buffer = await new Promise((resolve) => program.stdout.once('data', resolve));
    const port = Number(output.toString());
    expect(await isListening(port)).toBe(true);
    program.kill('SIGKILL');
    await until(async () => !(await isListening(port)));
  });
});

describe('a standby', () => {
  /** A primary with one row, and its standby. */
  const both = async (synchronous: boolean) => {
    const primary = await started(startPostgresServer({ settings: { max_connections: 12 } }));
    const write = await queryPostgres(primary.url);
    await write('CREATE TABLE kept (id int)');
    await write('INSERT INTO kept VALUES (1)');
    const standby = await started(startStandby(primary, { synchronous }));
    return { primary, write, standby };
  };
  const idsIn = async (query: Query) => (await query('SELECT id FROM kept ORDER BY id')).map(({ id }) => id);

  describeWith('postgres')('of Postgres for tests', () => {
    it('has what its primary commits, holds up no commit while it is down, and refuses writes until it is promoted', async () => {
      const { primary, write, standby } = await both(false);
      await write('INSERT INTO kept VALUES (2)');
      const read = await queryPostgres(standby.url);
      await until(async () => (await idsIn(read)).length === 2);
      await expect(read('INSERT INTO kept VALUES (3)')).rejects.toMatchObject({ code: '25006' });
      await standby.kill();
      await write('INSERT INTO kept VALUES (4)');
      await primary.kill();
      await standby.restart();
      await standby.promote();
      const promoted = await queryPostgres(standby.url);
      await promoted('INSERT INTO kept VALUES (5)');
      expect(await idsIn(promoted)).toEqual([1, 2, 5]);
    });

    it('that is synchronous holds up each commit of its primary until it has it', async () => {
      const { primary, write, standby } = await both(true);
      await standby.pause();
      const written = write('INSERT INTO kept VALUES (2)');
      await expect(within(300, written)).rejects.toThrow('no answer within');
      await standby.resume();
      await written;
      await primary.kill();
      await standby.promote();
      expect(await idsIn(await queryPostgres(standby.url))).toEqual([1, 2]);
    });
  });
});
