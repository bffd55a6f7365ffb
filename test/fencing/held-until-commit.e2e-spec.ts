import 'reflect-metadata';
import { afterEach, describe, expect, it } from '@jest/globals';
import { memoryStore, type Lock } from 'nestjs-distributed-lock';
import { heldUntilCommit, type SqlAnswer, type SqlQuery, type SqlRow } from 'nestjs-distributed-lock/guard';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { serializeDocument } from '../../libs/distributed-lock/src/document/json.js';
import type { Holder } from '../../libs/distributed-lock/src/document/document.js';
import { closeServices, openServiceOn } from '../support/lock-services.js';
import { openEmbeddedPostgres } from '#embedded-postgres';

afterEach(closeServices);

const NOW_MS = 1_795_237_040_328;

function holder(change: Partial<Holder> = {}): Holder {
  return {
    owner: 'api-1:1',
    claim: { kind: 'lock' },
    token: 11,
    lastToken: 20,
    until: NOW_MS + 1,
    ...change,
  };
}

function rowWith(...holders: readonly Holder[]): SqlRow {
  const state = serializeDocument({ holders, queue: [] });
  // As drivers answer BIGINT: a text, a number or a bigint.
  return {
    version: '7',
    state,
    last: 20,
    at: BigInt(NOW_MS) * 1000n,
    notes: '',
    now: `${NOW_MS}000`,
    inside: 1,
  };
}

function lockWith(fencingToken: number): Pick<Lock, 'keys' | 'tokenOf' | 'assertHeld'> {
  return { keys: ['goods:7'], tokenOf: () => fencingToken, assertHeld: () => {} };
}

/** Answers each statement, and remembers it. */
function answering(answer: SqlAnswer): { query: SqlQuery; sent: [string, unknown[]][] } {
  const sent: [string, unknown[]][] = [];
  const query: SqlQuery = async (sql, parameters) => {
    sent.push([sql, parameters]);
    return answer;
  };
  return { query, sent };
}

/** On real servers: test/stores/held-until-commit.stores-spec.ts. */
describe('heldUntilCommit', () => {
  it.each([11, 15, 20])(
    'passes with each token of the grant, as after local hand-offs: %s',
    async (token) => {
      await expect(
        heldUntilCommit(answering([rowWith(holder())]).query, lockWith(token)),
      ).resolves.toBeUndefined();
    },
  );

  it.each([10, 21])('refuses a token of another grant: %s', async (token) => {
    const { query } = answering([rowWith(holder())]);
    await expect(heldUntilCommit(query, lockWith(token))).rejects.toMatchObject({
      name: 'CommitRefusedError',
      code: 'LOCK_LOST',
      key: 'goods:7',
      tokenOffered: token,
      message: expect.stringContaining('the lock is held by api-1:1, with 20 as its last token'),
    });
  });

  it('refuses a lease that ends now', async () => {
    const { query } = answering([rowWith(holder({ until: NOW_MS }))]);
    await expect(heldUntilCommit(query, lockWith(11))).rejects.toThrow('its lease ended 0 ms ago');
  });

  it('finds the grant of each reader among all of them', async () => {
    const claim = { kind: 'shared' } as const;
    const others = holder({ owner: 'api-2:1', claim, token: 1, lastToken: 10 });
    const { query } = answering([rowWith(others, holder({ claim }))]);
    await expect(heldUntilCommit(query, lockWith(12))).resolves.toBeUndefined();
  });

  it('asks its own lock first, and sends no statement when that knows of its loss', async () => {
    const lock = await openServiceOn(memoryStore()).acquire('goods:7');
    await lock.release();
    const { query, sent } = answering([]);
    await expect(heldUntilCommit(query, lock)).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
    expect(sent).toEqual([]);
  });

  it('refuses a lock of another store, whose row does not exist, and says what to do', async () => {
    const lock = await openServiceOn(memoryStore()).acquire('goods:7');
    await expect(heldUntilCommit(answering([]).query, lock, { keyPrefix: 'shop:' })).rejects.toThrow(
      'nest_lock has no row "shop:goods:7". If the store of this lock has another table or keyPrefix',
    );
  });

  it('passes names as parameters, and several keys in one order', async () => {
    const { query, sent } = answering([rowWith(holder())]);
    const lock = { ...lockWith(11), keys: ["b'; DROP", 'a'] };
    await heldUntilCommit(query, lock, { table: 'app.locks', keyPrefix: '$1?' });
    expect(sent.map(([, parameters]) => parameters)).toEqual([['$1?a'], ["$1?b'; DROP"]]);
    expect(sent[0]?.[0]).toContain('FROM "app"."locks" WHERE name = $1 FOR SHARE');
    await heldUntilCommit(query, lockWith(11), { dialect: 'mysql' });
    expect(sent[2]?.[0]).toContain('WHERE name = CONVERT(? USING utf8mb4) LOCK IN SHARE MODE');
  });

  it.each([
    ['an answer without the columns', [{ state: null }], 'did not answer last, at, now'],
    ['no list of rows', { rows: 1 }, 'answered an object without a list of rows'],
    ['a row of a newer release', [{ ...rowWith(), state: '[9,[],[]]' }], 'is written in format 9'],
  ])('does not pass with %s', async (_, answer, message) => {
    const { query } = answering(answer as SqlAnswer);
    await expect(heldUntilCommit(query, lockWith(11))).rejects.toThrow(message);
  });

  it.each([
    ['a misspelt option', [answering([]).query, lockWith(1), { tabel: 'locks' }], 'did you mean table?'],
    [
      'a dialect that there is not',
      [answering([]).query, lockWith(1), { dialect: 'sqlite' }],
      "'postgres' or 'mysql'",
    ],
    [
      'a table that needs quotes',
      [answering([]).query, lockWith(1), { table: 'a"b' }],
      'table must be a name',
    ],
    ['no query function', [undefined, lockWith(1)], 'a function that runs a query; it was given undefined'],
    ['no lock', [answering([]).query, undefined], 'takes the Lock under which'],
    [
      'a fence instead of the lock',
      [answering([]).query, { key: 'a', fencingToken: 1 }],
      'takes the Lock under which',
    ],
  ])('refuses %s', async (_, args, message) => {
    const held = heldUntilCommit(...(args as unknown as Parameters<typeof heldUntilCommit>));
    await expect(held).rejects.toMatchObject({
      code: 'LOCK_CONFIGURATION',
      message: expect.stringContaining(message),
    });
  });

  it('ends a transaction of an embedded Postgres that has the locks, too', async () => {
    const db = await openEmbeddedPostgres();
    try {
      const locks = openServiceOn(postgresStore(db), { keyPrefix: 'shop:' });
      await db.exec('CREATE TABLE sales (id int)');
      const sell = (lock: Pick<Lock, 'keys' | 'tokenOf' | 'assertHeld'>) =>
        db.transaction(async (tx) => {
          await tx.query('INSERT INTO sales VALUES (1)');
          await heldUntilCommit((sql, parameters) => tx.query<SqlRow>(sql, parameters), lock, {
            keyPrefix: 'shop:',
          });
        });
      await locks.withLock('goods:7', sell);
      await expect(sell(lockWith(1))).rejects.toMatchObject({ code: 'LOCK_LOST' });
      expect((await db.query('SELECT id FROM sales')).rows).toEqual([{ id: 1 }]);
      await closeServices();
    } finally {
      await db.close();
    }
  }, 60_000);
});
