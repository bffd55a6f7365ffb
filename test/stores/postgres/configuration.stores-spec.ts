import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { LockConfigurationError, LockKeyError, type LockServiceOptions } from 'nestjs-distributed-lock';
import { lockTableSql, postgresStore } from 'nestjs-distributed-lock/postgres';
import pg from 'pg';
import { startStandby, type PostgresStandby } from '#postgres-server';
import { until } from '#until';
import { eventsOf } from '../../support/events.js';
import { failureOf, openServiceOn } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { ownPostgres } from './support/own-postgres.js';

const SECRET = 'correct-horse';

describe('postgresStore refuses', () => {
  const store = postgresStore as (target?: unknown, options?: unknown) => ReturnType<typeof postgresStore>;

  it.each<[string, unknown, RegExp]>([
    ['nothing', undefined, /it was given undefined/],
    ['an empty text', '', /it was given an empty string/],
    ['a text that is no URL', `host=db password=${SECRET}`, /no URL as postgres:/],
    ['the URL of MySQL', `mysql://u:${SECRET}@db/app`, /mysql:, not postgres:.* mysqlStore/],
    ['the URL of Redis', 'redis://db', /redis:, not postgres:/],
    ['options that name no server', { user: 'u', password: SECRET }, /name no server/],
    ['a connected client', new pg.Client(`postgres://u:${SECRET}@db/x`), /a connected client of pg/],
    ['a number', 5432, /it was given a number/],
  ])('%s', (_, target, message) => {
    expect(() => store(target)).toThrow(LockConfigurationError);
    expect(() => store(target)).toThrow(message);
    expect(() => store(target)).not.toThrow(SECRET);
  });

  it.each<[string, object, RegExp]>([
    ['an unknown option', { tables: 'x' }, /did you mean table\?/],
    ['a table that is no name', { table: 'a b' }, /it is "a b"/],
    ['a table with too many parts', { table: 'a.b.c' }, /it is "a\.b\.c"/],
    [
      'another way of notifying',
      { notifications: 'listen' },
      /notifications must be 'poll' or left out; it is listen/,
    ],
  ])('%s', (_, options, message) => {
    expect(() => store('postgres://db/x', options)).toThrow(message);
  });

  it('a command that may take longer than a third of the lease, with both numbers', () => {
    const open = (options: Omit<Partial<LockServiceOptions>, 'store'>) =>
      openServiceOn(postgresStore('postgres://127.0.0.1:1/x', { commandTimeoutMs: 900 }), options);
    expect(() => open({ watchdogTimeoutMs: 2000 })).toThrow(
      /\(2000\) .* three times commandTimeoutMs \(900\)/,
    );
  });
});

describeWith('postgres')('a service on PostgreSQL', () => {
  const postgres = ownPostgres();
  let standby: PostgresStandby;
  beforeAll(async () => {
    standby = await startStandby(postgres.server);
    await postgres.run(`CREATE ROLE app LOGIN PASSWORD '${SECRET}'`);
    await postgres.run('REVOKE CREATE ON SCHEMA public FROM PUBLIC');
  });
  afterAll(() => standby.stop());

  const as = (user: string) => postgres.url.replace('postgres@', `${user}:${SECRET}@`);
  const ask = (url: string, table?: string) =>
    failureOf(postgres.open(url, table === undefined ? {} : { table }).tryAcquire(postgres.key));

  it('says which statement makes the table, when its user may not, and works once it is there', async () => {
    const service = postgres.open(as('app'), { table: 'made_by_hand' });
    const failure = await failureOf(service.tryAcquire(postgres.key));
    expect(failure).toBeInstanceOf(LockConfigurationError);
    expect(String(failure)).toContain(lockTableSql('postgres', 'made_by_hand').replaceAll(/\s+/g, ' '));
    await postgres.run(lockTableSql('postgres', 'made_by_hand'));
    expect(String(await ask(as('app'), 'made_by_hand'))).toMatch(/lacks SELECT, INSERT, UPDATE or DELETE/);
    await postgres.run('GRANT SELECT, INSERT, UPDATE, DELETE ON made_by_hand TO app');
    await service.withLock(postgres.key, { waitMs: 5000 }, () => undefined);
  });

  it('shows as its process in the list of connections, unless the target has a name', async () => {
    const named = async (name: string) => {
      const like = 'SELECT FROM pg_stat_activity WHERE application_name LIKE $1';
      return (await postgres.run(like, [name])).length;
    };
    const own = openServiceOn(postgresStore(postgres.url), { application: 'shop' });
    const given = openServiceOn(postgresStore(`${postgres.url}?application_name=given`), {
      application: 'x',
    });
    await Promise.all([own, given].map((it) => it.withLock(postgres.key, () => undefined)));
    await until(async () => (await named(`locks/shop/%/${process.pid}`)) > 0 && (await named('given')) > 0);
    expect(await named('locks/x/%')).toBe(0);
  });

  it('makes the table in the schema that it is told', async () => {
    await postgres.run('CREATE SCHEMA "App"');
    await postgres.open(postgres.url, { table: 'App.Locks' }).withLock(postgres.key, () => undefined);
    expect(await postgres.run('SELECT name FROM "App"."Locks"')).toEqual([{ name: postgres.key }]);
  });

  it('refuses a table of another shape, with what it lacks', async () => {
    await postgres.run('CREATE TABLE goods (name text PRIMARY KEY, version int)');
    const failure = await ask(postgres.url, 'goods');
    expect(failure).toBeInstanceOf(LockConfigurationError);
    expect(String(failure)).toMatch(
      /goods is no lock table: it lacks state text.*version is integer and not bigint/,
    );
  });

  it('refuses a read replica', async () => {
    const failure = await ask(standby.url);
    expect(failure).toBeInstanceOf(LockConfigurationError);
    expect(String(failure)).toMatch(/a read replica .* Give the address of the primary/);
  });

  it("lists and inspects on a read replica, with access 'read'", async () => {
    const here = postgres.open(postgres.url);
    const there = postgres.open(standby.url, { access: 'read' });
    await here.withLock(postgres.key, async (lock) => {
      await until(async () => (await there.inspect(postgres.key)) !== null);
      expect(await there.list()).toMatchObject({
        entries: [{ key: postgres.key, fencingToken: lock.fencingToken }],
        unreadable: [],
      });
    });
  });

  it('tells a read-only user from a replica, and takes its locks once it may write', async () => {
    await postgres.run('CREATE ROLE reader LOGIN; GRANT ALL ON SCHEMA public TO reader');
    await postgres.run('ALTER ROLE reader SET default_transaction_read_only = on');
    const service = postgres.open(as('reader'), { table: 'read_only' });
    const failure = await failureOf(service.tryAcquire(postgres.key));
    expect(failure).toBeInstanceOf(LockConfigurationError);
    expect(String(failure)).toMatch(/default_transaction_read_only is on/);
    expect(String(failure)).not.toMatch(/replica/);
    await postgres.run('ALTER ROLE reader RESET default_transaction_read_only');
    await until(() => service.withLock(postgres.key, () => true).catch(() => false));
    expect(await service.inspect('another key')).toBeNull();
  });

  it.each<[string, (url: URL) => void, RegExp]>([
    ['a wrong database', (url) => (url.pathname = 'none'), /database "none" does not exist \(3D000\)/],
    ['a wrong user', (url) => (url.username = 'nobody'), /role "nobody" does not exist/],
  ])('says so for %s, and tells no password', async (_, change, message) => {
    const url = new URL(as('app'));
    change(url);
    const service = postgres.open(url.href);
    const events = eventsOf(service);
    const failure = await failureOf(service.tryAcquire(postgres.key));
    expect(failure).toMatchObject({ reason: 'refused', message: expect.stringMatching(message) });
    const all = inspect([failure, events, service], { depth: Infinity, getters: true });
    expect(all).not.toContain(SECRET);
    expect(JSON.stringify([failure, events])).not.toContain(SECRET);
  });

  it('refuses keys that a text column cannot tell apart or hold', async () => {
    const service = postgres.open();
    for (const key of ['a\0b', 'half \ud800', 'half \udc00', 'ü'.repeat(1001)]) {
      expect(await failureOf(service.tryAcquire(key))).toBeInstanceOf(LockKeyError);
    }
    const odd = ["it's", '"', '\\', '$1', '%', 'ä', 'a\u0308', '🔒', ' ', '\n', 'ü'.repeat(1000)];
    const locks = await Promise.all(odd.map((key) => service.tryAcquire(key)));
    expect(locks.every((lock) => lock !== null)).toBe(true);
  });

  it('says what is wrong with a document of another release', async () => {
    const service = postgres.open();
    await service.withLock(postgres.key, () => undefined);
    await postgres.untilFree(postgres.key);
    await postgres.run(`UPDATE nest_lock SET state = '[99,[],[]]' WHERE name = $1`, [postgres.key]);
    expect(await failureOf(service.tryAcquire(postgres.key))).toMatchObject({
      reason: 'refused',
      message: expect.stringMatching(/format 99, and this release reads format 1/),
    });
    await service.withLock(`${postgres.key}:other`, () => undefined);
  });
});
