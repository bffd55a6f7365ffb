import { afterEach, expect, it } from '@jest/globals';
import { lockTableSql } from 'nestjs-distributed-lock/postgres';
import { closeServices, failureOf } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { ownPostgres } from './support/own-postgres.js';

const COLUMNS = `name text COLLATE "C" PRIMARY KEY, version bigint NOT NULL, state text, last bigint NOT NULL,
  at bigint NOT NULL, clients text NOT NULL, notes text NOT NULL`;
const made = 'CREATE TABLE odd';
const madeWith = (from: string, to: string) => `${made} (${COLUMNS.replace(from, to)})`;
const plain = madeWith('', '');
const unique = 'CREATE UNIQUE INDEX few ON odd';
const madeByServer = 'bigint GENERATED ALWAYS AS IDENTITY';
const nocase = `CREATE COLLATION IF NOT EXISTS nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`;
const likeIt = lockTableSql('postgres', 'likeness');

describeWith('postgres')('the table of postgresStore', () => {
  const own = ownPostgres();

  afterEach(async () => {
    // A store that goes on would make the table.
    await closeServices();
    for (const kind of ['VIEW', 'TABLE'])
      await own.run(`DROP ${kind} IF EXISTS odd CASCADE`).catch(() => undefined);
    await own.run('DROP TABLE IF EXISTS odd, likeness CASCADE');
    await own.run('DROP ROLE IF EXISTS poor');
  });

  it.each([
    ['a copy without its key', `${likeIt}; ${made} AS SELECT * FROM likeness`, 'name is not its primary'],
    [
      'another key',
      madeWith('PRIMARY KEY', ', id serial PRIMARY KEY'),
      'name is not its primary or unique key',
    ],
    ['a key of some rows', `${madeWith('PRIMARY KEY', '')}; ${unique} (name) WHERE state IS NULL`, 'not its'],
    ['a key that is checked late', madeWith('PRIMARY KEY', ', UNIQUE (name) DEFERRABLE'), 'name is not its'],
    ['one more unique key', `${plain}; ${unique} (lower(name))`, 'its unique key few'],
    ['a name without case', `${nocase}; ${madeWith('"C"', 'nocase')}`, 'nocase and not text COLLATE C'],
    ['a name in the collation of the database', madeWith(' COLLATE "C"', ''), 'name is text COLLATE default'],
    ['a name that is too short', madeWith('name text', 'name varchar(9)'), 'name is character varying(9)'],
    ['small numbers', madeWith('version bigint', 'version int'), 'version is integer and not bigint'],
    ['a state that is rewritten', madeWith('state text', 'state jsonb'), 'state is jsonb and not text'],
    ['a state that is never NULL', madeWith('state text', 'state text NOT NULL'), 'state must be NULL'],
    [
      'a number that the server makes',
      madeWith('bigint NOT NULL', madeByServer),
      'version is bigint GENERATED',
    ],
    ['a column less', madeWith(', clients text NOT NULL', ''), 'it lacks clients text'],
    [
      'a column that must be given',
      madeWith('KEY', 'KEY, shop int NOT NULL'),
      'its column shop has no default',
    ],
    ['a view', `${likeIt}; CREATE VIEW odd AS SELECT * FROM likeness`, 'it is a view'],
    ['a table of partitions', `${plain} PARTITION BY HASH (name)`, 'it is partitioned'],
    ['a table that others inherit', `${plain}; CREATE TABLE child () INHERITS (odd)`, 'others inherit it'],
    ['an unlogged table', plain.replace('TABLE', 'UNLOGGED TABLE'), 'a crash empties it'],
  ])(
    'is refused at the start if it is %s, with the reason and the statement that makes a lock table',
    async (_title, sql, says) => {
      for (const statement of sql.split(';')) await own.run(statement);
      const failure = await failureOf(own.open(own.url, { table: 'odd' }).acquire(own.key, { waitMs: 0 }));
      expect(failure).toMatchObject({ code: 'LOCK_CONFIGURATION', message: expect.stringContaining(says) });
      expect((failure as Error).message).toContain('CREATE TABLE IF NOT EXISTS "odd"');
    },
  );

  it('is refused if a policy hides rows from the user of the store', async () => {
    await own.run(plain);
    await own.run('CREATE ROLE poor LOGIN');
    await own.run('GRANT ALL ON odd TO poor');
    await own.run('ALTER TABLE odd ENABLE ROW LEVEL SECURITY');
    const url = own.url.replace('postgres@', 'poor@');
    const failure = await failureOf(own.open(url, { table: 'odd' }).acquire(own.key, { waitMs: 0 }));
    expect(failure).toMatchObject({
      code: 'LOCK_CONFIGURATION',
      message: expect.stringContaining('row level security'),
    });
    await own.run('REVOKE ALL ON odd FROM poor');
  });

  it('may have columns of its owner that may stay empty, and its key on another index', async () => {
    await own.run(
      madeWith(
        'PRIMARY KEY',
        ', id serial PRIMARY KEY, shop int, made timestamptz NOT NULL DEFAULT now(), UNIQUE (name)',
      ),
    );
    const service = own.open(own.url, { table: 'odd' });
    const lock = await service.acquire(own.key);
    await lock.release();
    expect(await service.withLock(own.key, ({ fencingToken }) => fencingToken)).toBeGreaterThan(
      lock.fencingToken,
    );
  });
});
