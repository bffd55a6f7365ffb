import { afterAll, beforeAll, expect, it } from '@jest/globals';
import pg from 'pg';
import { postgresStore, type PostgresTarget } from 'nestjs-distributed-lock/postgres';
import { startPgbouncer, type Pgbouncer } from '#pgbouncer';
import { until } from '#until';
import { openServiceOn } from '../../support/lock-services.js';
import { PATIENT } from '../../support/patient.js';
import { describeWith } from '../support/describe-with.js';
import { ownPostgres } from './support/own-postgres.js';

const MANY = Array.from({ length: 5 }, (_, i) => `many-${i}`);

describeWith('postgres', 'pgbouncer')('what a commit of a grant waits for', () => {
  const postgres = ownPostgres({ settings: { wal_writer_delay: 10_000 } });
  const pools: { end(): Promise<void> }[] = [];
  let pooler: Pgbouncer;
  beforeAll(async () => {
    await postgres.open().withLock('first', () => undefined);
    // Deferred, so that it sees the setting with which the transaction commits.
    await postgres.run(`
      CREATE TABLE commits (state text, setting text);
      CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO commits VALUES (NEW.state, current_setting('synchronous_commit')); RETURN NULL;
      END $$;
      CREATE CONSTRAINT TRIGGER note_commit AFTER INSERT OR UPDATE ON nest_lock
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_commit()`);
  });
  afterAll(() => pooler?.stop());

  const targets: Record<string, () => Promise<PostgresTarget>> = {
    'a connection of its own': async () => postgres.url,
    'a pooler': async () => {
      await pooler?.stop();
      return (pooler = await startPgbouncer(postgres.server)).url;
    },
    'a query function': async () => {
      const pool = new pg.Pool({ connectionString: postgres.url });
      pools.push(pool);
      return { query: (sql: string, parameters: unknown[]) => pool.query<object>(sql, parameters) };
    },
  };
  const cases = Object.keys(targets).flatMap((target) =>
    ['off', 'local', 'remote_write', 'on', 'remote_apply'].map((setting) => [target, setting] as const),
  );

  it.each(cases)('over %s is the disk, also where the database says %s', async (how, setting) => {
    await postgres.run(`ALTER DATABASE postgres SET synchronous_commit = ${setting}`);
    const service = openServiceOn(postgresStore(await targets[how]!(), PATIENT));
    const next = postgres.open();
    await postgres.run('TRUNCATE commits');
    const one = await service.acquire(postgres.key, { leaseMs: 5000 });
    await one.extend(6000);
    const waiting = next.acquire(postgres.key, { waitMs: 10_000 });
    await until(async () => (await service.inspect(postgres.key))?.pending.length === 1);
    const many = await Promise.all(MANY.map((key) => service.acquire(key)));
    await Promise.all(many.map((lock) => lock.release()));
    await (await service.acquire(MANY)).release();
    await one.release();
    await (await waiting).release();
    await Promise.all([service.close(), next.close()]);
    await Promise.all(pools.splice(0).map((pool) => pool.end()));
    const settingsWhere = async (condition: string) =>
      (await postgres.run(`SELECT DISTINCT setting FROM commits WHERE ${condition}`)).map(
        (row) => row['setting'],
      );
    expect(await settingsWhere('state IS NOT NULL')).toEqual([setting === 'remote_apply' ? setting : 'on']);
    // A release that frees the key need not wait: a crash may bring the lock back until its lease is over.
    expect(await settingsWhere('state IS NULL')).toEqual(['off']);
  });

  it('is the disk, so that each grant survives the death of a server that commits later by itself', async () => {
    await postgres.run(`ALTER DATABASE postgres SET synchronous_commit = off`);
    const service = postgres.open();
    await service.withLock('opened', () => undefined);
    const keys = Array.from({ length: 20 }, (_, i) => `${postgres.key}:${i}`);
    for (const key of keys) await service.acquire(key, { leaseMs: 60_000 });
    await postgres.server.kill();
    await postgres.server.restart();
    await postgres.connect();
    const held = await postgres.run('SELECT FROM nest_lock WHERE state IS NOT NULL AND name = ANY ($1)', [
      keys,
    ]);
    expect(held).toHaveLength(keys.length);
  });
});
