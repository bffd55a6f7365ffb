import { beforeAll, expect, it } from '@jest/globals';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import pg from 'pg';
import { until } from '#until';
import { eventsOf } from '../../support/events.js';
import { failureOf, openServiceOn } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { ownPostgres } from './support/own-postgres.js';

describeWith('postgres')('two roles with schemas of their own name', () => {
  const postgres = ownPostgres();
  const as = (role: string) => postgres.url.replace('postgres@', `${role}@`);
  beforeAll(async () => {
    for (const role of ['alice', 'bob']) {
      await postgres.run(`CREATE ROLE ${role} LOGIN; CREATE SCHEMA ${role} AUTHORIZATION ${role}`);
    }
    await postgres.run('CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO PUBLIC');
  });

  /** A service of this role that has used a lock, and what it has told. */
  async function opened(role: string, table?: string) {
    const service = postgres.open(as(role), table === undefined ? {} : { table });
    const events = eventsOf(service);
    await service.withLock(`${postgres.key}:${role}`, () => undefined);
    await until(() => events.some(({ type }) => type === 'opened'));
    const addresses = events.flatMap((event) => (event.type === 'opened' ? [event.address] : []));
    const warnings = events.flatMap((event) => (event.type === 'warning' ? [event.message] : []));
    return { service, addresses, warnings };
  }

  it('are told which table each of them uses, and warned of the other', async () => {
    const alice = await opened('alice');
    expect(alice.addresses).toEqual([`127.0.0.1:${postgres.server.port}/postgres, table alice.nest_lock`]);
    expect(alice.warnings).toEqual([]);
    const bob = await opened('bob');
    expect(bob.addresses).toEqual([`127.0.0.1:${postgres.server.port}/postgres, table bob.nest_lock`]);
    expect(bob.warnings).toEqual([expect.stringContaining('other lock tables: alice.nest_lock')]);
  });

  it('exclude each other by a table with its schema, without a warning', async () => {
    const alice = await opened('alice', 'app.nest_lock');
    await postgres.run('GRANT SELECT, INSERT, UPDATE, DELETE ON app.nest_lock TO bob');
    const bob = await opened('bob', 'app.nest_lock');
    expect([...alice.warnings, ...bob.warnings]).toEqual([]);
    const lock = await alice.service.acquire(postgres.key);
    expect(await bob.service.tryAcquire(postgres.key)).toBeNull();
    await lock.release();
  });

  it.each<[string, () => pg.Pool]>([
    [
      'a listener that sets the search_path',
      () =>
        new pg.Pool({ connectionString: postgres.url }).on('connect', (client) => {
          client.query('SET search_path TO chosen').catch(() => undefined);
        }),
    ],
    [
      'a listener that sets the role',
      () =>
        new pg.Pool({ connectionString: postgres.url }).on('connect', (client) => {
          client.query('SET ROLE chosen').catch(() => undefined);
        }),
    ],
    [
      'onConnect',
      () => {
        const onConnect = (client: pg.ClientBase): void => void client.query('SET search_path TO chosen');
        return new pg.Pool({ connectionString: postgres.url, onConnect });
      },
    ],
    [
      'verify',
      () => {
        const verify = (client: pg.PoolClient, done: (error?: Error) => void) => {
          client.query('SET search_path TO chosen', (error) => done(error));
        };
        return new pg.Pool({ connectionString: postgres.url, verify });
      },
    ],
    [
      'a class of clients',
      () => {
        class ChosenClient extends pg.Client {
          constructor(config?: string | pg.ClientConfig) {
            super({ ...(config as pg.ClientConfig), options: '-c search_path=chosen' });
          }
        }
        return new pg.Pool({ connectionString: postgres.url, Client: ChosenClient });
      },
    ],
  ])('have their locks where %s of a pool sends each of its clients', async (_, makePool) => {
    await postgres.run(
      'DROP SCHEMA IF EXISTS chosen CASCADE; DROP ROLE IF EXISTS chosen; CREATE ROLE chosen',
    );
    await postgres.run('CREATE SCHEMA chosen AUTHORIZATION chosen');
    const pool = makePool();
    const service = openServiceOn(postgresStore(pool));
    const lock = await service.acquire(postgres.key);
    expect(await postgres.run('SELECT FROM chosen.nest_lock WHERE name = $1', [postgres.key])).toHaveLength(
      1,
    );
    expect(pool.totalCount).toBe(0);
    await lock.release();
    await service.close();
    await pool.end();
  });

  it('are told the table once, also when the server cannot be reached at first', async () => {
    const service = postgres.open('postgres://nobody@127.0.0.1:1/none');
    const events = eventsOf(service);
    await failureOf(service.tryAcquire(postgres.key));
    const told = events.filter(({ type }) => type === 'opened');
    expect(told).toEqual([expect.objectContaining({ address: '127.0.0.1:1/none, table nest_lock' })]);
  });
});
