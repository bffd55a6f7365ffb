import { readFile, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { postgresStore, type PostgresTarget } from 'nestjs-distributed-lock/postgres';
import pg from 'pg';
import { until } from '#until';
import { closeServices, failureOf, openServiceOn } from '../../support/lock-services.js';
import { PATIENT } from '../../support/patient.js';
import { describeWith } from '../support/describe-with.js';
import { ownPostgres } from './support/own-postgres.js';

const PASSWORD = `it's ":/?#[]@ %41 ü`;

describeWith('postgres')('a PostgreSQL that asks for a password', () => {
  const postgres = ownPostgres();
  const pools: pg.Pool[] = [];
  beforeAll(async () => {
    await postgres.run(`CREATE ROLE locks LOGIN PASSWORD ${pg.escapeLiteral(PASSWORD)}`);
    await postgres.run('GRANT ALL ON SCHEMA public TO locks');
    const [{ file }] = (await postgres.run<{ file: string }>(
      `SELECT current_setting('hba_file') AS file`,
    )) as [{ file: string }];
    await writeFile(
      file,
      `host all locks 127.0.0.1/32 scram-sha-256\nhostnossl all outside 127.0.0.1/32 reject\n${await readFile(file, 'utf8')}`,
    );
    await postgres.run('SELECT pg_reload_conf()');
  });
  afterAll(async () => {
    await closeServices();
    await Promise.all(pools.map((pool) => pool.end()));
  });

  const options = (password: string) => {
    const { port } = postgres.server;
    return { host: '127.0.0.1', port, database: 'postgres', user: 'locks', password };
  };
  const url = () => {
    const { port } = postgres.server;
    return `postgres://locks:${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}/postgres`;
  };
  const pool = (config: pg.PoolConfig) => {
    const made = new pg.Pool(config);
    pools.push(made);
    return made;
  };

  it.each<[string, () => PostgresTarget]>([
    ['a URL', url],
    ['options', () => options(PASSWORD)],
    ['options with a URL', () => ({ connectionString: url() })],
    ['options with a function', () => ({ ...options(''), password: () => Promise.resolve(PASSWORD) })],
    ['a pool of options', () => pool(options(PASSWORD))],
    ['a pool of a URL', () => pool({ connectionString: url() })],
    ['a pool of options with a function', () => pool({ ...options(''), password: async () => PASSWORD })],
  ])('takes locks for a store that was given %s, over both connections', async (_, target) => {
    const service = openServiceOn(postgresStore(target(), PATIENT));
    const other = openServiceOn(postgresStore(target(), PATIENT));
    const lock = await service.acquire(postgres.key);
    const waiting = other.acquire(postgres.key, { waitMs: 10_000 });
    await lock.release();
    await (await waiting).release();
    const listening = `SELECT FROM pg_stat_activity WHERE usename = 'locks' AND query LIKE '%idle_session_timeout%'`;
    await until(async () => (await postgres.run(listening)).length > 0);
    expect(await service.inspect(postgres.key)).toBeNull();
  });

  it.each<[string, (rotate: { password: string }) => PostgresTarget]>([
    [
      'the options of a pool',
      (rotate) => {
        const made = pool(options('first'));
        Object.defineProperty(rotate, 'password', {
          set(password: string) {
            Object.assign(made.options, { password });
          },
        });
        return made;
      },
    ],
    [
      'options',
      (rotate) => {
        const given = options('first');
        Object.defineProperty(rotate, 'password', {
          set(password: string) {
            given.password = password;
          },
        });
        return given;
      },
    ],
    [
      'what a getter reads',
      (rotate) => ({
        ...options(''),
        get password() {
          return rotate.password;
        },
      }),
    ],
    ['what a function returns', (rotate) => ({ ...options(''), password: () => rotate.password })],
  ])('that is rotated in %s is the one of the next connections', async (_, make) => {
    const rotate = { password: 'first' };
    await postgres.run(`ALTER ROLE locks PASSWORD 'first'`);
    const target = make(rotate);
    const service = openServiceOn(postgresStore(target, PATIENT));
    await service.withLock(postgres.key, () => undefined);
    await postgres.run(`ALTER ROLE locks PASSWORD 'second'`);
    rotate.password = 'second';
    await postgres.run(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'locks'`);
    const withLock = () => service.withLock(postgres.key, () => true).catch(() => false);
    await until(withLock);
    expect(await withLock()).toBe(true);
    await postgres.run(`ALTER ROLE locks PASSWORD ${pg.escapeLiteral(PASSWORD)}`);
  });

  it('refuses a store with another one, which does not repeat it', async () => {
    const service = openServiceOn(postgresStore(pool(options('correct-horse')), PATIENT));
    const failure = await failureOf(service.tryAcquire(postgres.key));
    expect(failure).toMatchObject({ reason: 'refused' });
    expect(String(failure)).toMatch(/user or password is wrong \(28P01\)/);
    expect(String(failure)).not.toContain('correct-horse');
  });

  it('says how to connect with TLS to a store whose user it lets in only so', async () => {
    const service = openServiceOn(postgresStore({ ...options('correct-horse'), user: 'outside' }));
    const failure = await failureOf(service.tryAcquire(postgres.key));
    expect(failure).toMatchObject({ reason: 'refused' });
    expect(String(failure)).toMatch(/no encryption \(28000\)\. Connect with TLS: add \?sslmode=verify-full/);
    expect(String(failure)).not.toContain('correct-horse');
  });
});
