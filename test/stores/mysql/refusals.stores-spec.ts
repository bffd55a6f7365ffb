import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { mysqlStore, type MysqlTarget } from 'nestjs-distributed-lock/mysql';
import mysql from 'mysql2/promise';
import { startMysqlServer } from '#mysql-server';
import { until } from '#until';
import { closeServices, failureOf, openServiceOn } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { describeOnBothServers } from './support/on-both-servers.js';
import { ownServer } from '../../support/own-server.js';

const url = 'mysql://user:geheim@localhost:3306/app';

describe('mysqlStore refuses', () => {
  it.each([
    ['a URL of PostgreSQL', 'postgres://user:geheim@localhost/app', 'postgresStore'],
    ['a URL of another protocol', 'http://user:geheim@localhost', 'the scheme of the URL is http:'],
    ['an empty text', '', 'no URL with a host'],
    ['a URL without a host', 'mysql:///app', 'no URL with a host'],
    ['a URL with a "?" in its password', 'mysql://user:12?geheim@localhost/app', 'encodeURIComponent'],
    ['options that name no server', { user: 'a', password: 'geheim' }, 'name no server'],
    ['nothing', undefined, 'it was given undefined'],
    ['a number', 3306, 'it was given a number'],
  ])('%s', (_title, target, says) => {
    const make = () => mysqlStore(target as MysqlTarget);
    expect(make).toThrow(says);
    expect(make).not.toThrow('geheim');
  });

  it('a connection, and takes the options of a pool', async () => {
    const pool = mysql.createPool(url);
    expect(() => mysqlStore(pool)).not.toThrow();
    expect(() => mysqlStore(pool.pool)).not.toThrow();
    await pool.end();
    const connection = { query: () => undefined, execute: () => undefined, end: () => undefined };
    expect(() => mysqlStore(connection as unknown as MysqlTarget)).toThrow('a connection of their own');
    const tool = { query: () => undefined };
    expect(() => mysqlStore(tool as unknown as MysqlTarget)).toThrow('give the URL or the options');
  });

  it('a timeout that the watchdog does not allow, with both numbers', () => {
    const store = mysqlStore(url, { commandTimeoutMs: 500 });
    const open = () => openServiceOn(store, { watchdogTimeoutMs: 1000 });
    expect(open).toThrow(/watchdogTimeoutMs \(1000\).*commandTimeoutMs \(500\)/);
  });

  it('the name of a table that is none', () => {
    expect(() => mysqlStore(url, { table: 'a; DROP TABLE b' })).toThrow('table must be a name');
  });
});

describeOnBothServers('a server of mysqlStore', (stage) => {
  const withDatabase = (database: string) => stage.server.url.replace(/test$/, database);

  it('that has no such database is told by its name, at once', async () => {
    const service = stage.service({ url: withDatabase('nowhere') });
    const failure = await failureOf(service.acquire(stage.key, { waitMs: 0 }));
    expect(failure).toMatchObject({ reason: 'refused', message: expect.stringContaining('nowhere') });
  });

  it('that has its locks in the database that a listener of a pool chooses, and not in that of its URL', async () => {
    const { server, key } = stage;
    await stage.rows('CREATE DATABASE IF NOT EXISTS chosen');
    for (const make of [
      () => mysql.createPool(server.url),
      () => mysql.createPool(server.url).pool as unknown as ReturnType<typeof mysql.createPool>,
    ]) {
      const pool = make();
      pool.on('connection', (connection) => void connection.query('USE chosen'));
      const service = openServiceOn(mysqlStore(pool));
      const lock = await service.acquire(key);
      expect(await stage.rows('SELECT 1 FROM chosen.nest_lock LIMIT 1')).toHaveLength(1);
      await lock.release();
      await service.close();
      await pool.end();
    }
    await stage.rows('DROP DATABASE chosen');
  });

  it('that has another table of this name is told with how to go on', async () => {
    await stage.admin.query('CREATE TABLE occupied (id INT)');
    const service = stage.service({}, { table: 'occupied' });
    const failure = await failureOf(service.acquire(stage.key, { waitMs: 0 }));
    expect(failure).toMatchObject({
      code: 'LOCK_CONFIGURATION',
      message: expect.stringContaining(
        'is no lock table: it lacks name varbinary(2048), writer bigint, version bigint',
      ),
    });
  });

  it('keeps the locks of two tables apart', async () => {
    await using first = await stage.service({}, { table: 'locks_a' }).acquire(stage.key);
    await using second = await stage.service({}, { table: 'test.locks_b' }).acquire(stage.key);
    expect(first.key).toBe(second.key);
  });
});

describeWith('mysql')('a MySQL server with users', () => {
  const server = ownServer(() => startMysqlServer({ settings: { max_connections: 8 } }));
  let admin: mysql.Connection;
  beforeAll(async () => {
    admin = await mysql.createConnection(server.url);
    await admin.query("CREATE USER poor@'%' IDENTIFIED BY 'geheim'");
  }, 60_000);
  afterAll(async () => {
    await closeServices();
    await admin?.end();
  });

  const poor = (password = 'geheim') => server.url.replace('root@', `poor:${password}@`);
  /** A busy machine may take its time to connect. */
  const serviceOn = (target: string) => openServiceOn(mysqlStore(target, { commandTimeoutMs: 5000 }));
  const failureWith = async (target: string) =>
    (await failureOf(serviceOn(target).acquire('key', { waitMs: 0 }))) as Error;

  it('says that the password is wrong, and not which one it was', async () => {
    const failure = await failureWith(poor('falsch'));
    expect(failure).toMatchObject({
      reason: 'refused',
      message: expect.stringContaining('Check user and password'),
    });
    expect(failure.message).not.toContain('falsch');
  });

  it('says that the user may not make the table, with the statement that makes it', async () => {
    await admin.query("GRANT SELECT, INSERT, UPDATE, DELETE ON test.* TO poor@'%'");
    const failure = await failureWith(poor());
    expect(failure).toMatchObject({ code: 'LOCK_CONFIGURATION' });
    expect(failure.message).toContain('CREATE TABLE IF NOT EXISTS `nest_lock`');
  });

  it('lets the user use a table that exists', async () => {
    await serviceOn(server.url).withLock('key', () => undefined);
    const lock = await serviceOn(poor()).acquire('key');
    expect(lock.key).toBe('key');
    await lock.release();
  });

  it('is given a rotated password by the next connection', async () => {
    const key = 'rotated';
    const { hostname: host, port, pathname } = new URL(server.url);
    await admin.query("CREATE USER rotated@'%' IDENTIFIED BY 'first'");
    await admin.query("GRANT ALL ON test.* TO rotated@'%'");
    const place = { host, port: Number(port), database: pathname.slice(1), user: 'rotated' };
    const pool = mysql.createPool({ ...place, password: 'first' });
    let password = 'first';
    const targets: MysqlTarget[] = [
      pool,
      {
        ...place,
        get password() {
          return password;
        },
      },
    ];
    const services = targets.map((target) => openServiceOn(mysqlStore(target)));
    await Promise.all(services.map((service, i) => service.withLock(`${key}:${i}`, () => undefined)));
    await admin.query("ALTER USER rotated@'%' IDENTIFIED BY 'second'");
    password = 'second';
    const { config } = pool.pool as unknown as { config: { connectionConfig: { password: string } } };
    config.connectionConfig.password = password;
    const [rows] = await admin.query<mysql.RowDataPacket[]>(
      "SELECT id FROM information_schema.processlist WHERE user = 'rotated'",
    );
    for (const { id } of rows) {
      await admin.query(`KILL ${String(id)}`).catch(() => undefined);
    }
    for (const service of services) {
      const withLock = () => service.withLock(key, () => true).catch(() => false);
      await until(withLock);
      expect(await withLock()).toBe(true);
    }
    await Promise.all(services.map((service) => service.close()));
    await pool.end();
    await admin.query("DROP USER rotated@'%'");
  });

  it('says which rights are missing', async () => {
    await admin.query("REVOKE DELETE ON test.* FROM poor@'%'");
    expect(await failureWith(poor())).toMatchObject({
      reason: 'refused',
      message: expect.stringContaining('SELECT, INSERT, UPDATE and DELETE'),
    });
    await admin.query("GRANT DELETE ON test.* TO poor@'%'");
  });

  it('says that it is read-only, and is used again when it is not any more', async () => {
    const service = serviceOn(poor());
    await (await service.acquire('key')).release();
    await admin.query('SET GLOBAL read_only = ON');
    expect(await failureOf(service.acquire('key', { waitMs: 0 }))).toMatchObject({
      reason: 'unready',
      message: expect.stringContaining('Locks need the primary'),
    });
    await admin.query('SET GLOBAL read_only = OFF');
    const again = await service.acquire('key', { waitMs: 10_000 }).catch(() => service.acquire('key'));
    await again.release();
  });

  it('says that it has no connection left', async () => {
    await closeServices();
    const connected = "SELECT COUNT(*) AS n FROM information_schema.processlist WHERE db = 'test'";
    await until(async () => (await admin.query<mysql.RowDataPacket[]>(connected))[0][0]!['n'] === 1);
    const others = await Promise.all(
      Array.from({ length: 12 }, () => mysql.createConnection(server.url).catch(() => undefined)),
    );
    expect(await failureWith(poor())).toMatchObject({
      reason: 'unready',
      message: expect.stringContaining('max_connections'),
    });
    for (const other of others) other?.destroy();
  });
});
