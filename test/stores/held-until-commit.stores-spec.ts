import 'reflect-metadata';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import type { Lock, LockError, LockService, LockStoreFactory } from 'nestjs-distributed-lock';
import {
  CommitRefusedError,
  heldUntilCommit,
  type HeldUntilCommitOptions,
  type SqlDialect,
} from 'nestjs-distributed-lock/guard';
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { startMariadbServer } from '#mariadb-server';
import { startMysqlServer } from '#mysql-server';
import { startPostgresServer } from '#postgres-server';
import type { ServerName } from '#servers';
import { until } from '#until';
import type { OwnServer } from '../../tools/own-server/index.mjs';
import { closeServices, failureOf, openServiceOn } from '../support/lock-services.js';
import { PATIENT } from '../support/patient.js';
import { describeWith } from './support/describe-with.js';
import { openConnection, type OwnConnection } from './support/own-transactions.js';
import { ownServer } from '../support/own-server.js';

interface Engine {
  readonly name: ServerName;
  readonly dialect: SqlDialect;
  readonly start: () => Promise<OwnServer>;
  readonly store: (url: string, options?: { commandTimeoutMs: number }) => LockStoreFactory;
  /** The server tells whether a statement is in a transaction. */
  readonly tellsTransactions: boolean;
  /** The statements are those of an engine above, so that only what the server does by itself is tried. */
  readonly sharesDialect?: true;
}

const POSTGRES = { dialect: 'postgres', store: postgresStore } as const;
const MYSQL = { dialect: 'mysql', store: mysqlStore } as const;
const ENGINES: readonly Engine[] = [
  { name: 'postgres', ...POSTGRES, start: startPostgresServer, tellsTransactions: true },
  { name: 'mariadb', ...MYSQL, start: startMariadbServer, tellsTransactions: true },
  { name: 'mysql', ...MYSQL, start: startMysqlServer, tellsTransactions: false, sharesDialect: true },
];

const LEASE_MS = 1500;
const COMMAND_TIMEOUT_MS = 500;

type Held = Parameters<typeof heldUntilCommit>[1];

/** The lock as a process has it that was frozen: it does not know yet of the loss. */
function frozen(lock: Lock): Held {
  const tokens = new Map(lock.keys.map((key) => [key, lock.tokenOf(key)]));
  return { keys: lock.keys, tokenOf: (key) => tokens.get(key) as number, assertHeld: () => {} };
}

const pastMs = async (ms: number) => {
  const endsAt = performance.now() + ms;
  await until(() => performance.now() > endsAt);
};

/** Whether it has settled by now. */
function watch(promise: Promise<unknown>): { isSettled: boolean } {
  const watched = { isSettled: false };
  const settle = () => void (watched.isSettled = true);
  promise.then(settle, settle);
  return watched;
}

for (const { name, dialect, start, store, tellsTransactions, sharesDialect } of ENGINES) {
  describeWith(name)(`heldUntilCommit on ${name}`, () => {
    const server = ownServer(start);
    const opened: OwnConnection[] = [];
    let reader: OwnConnection;
    /** Opened before the lease begins, which is short. */
    let sellers: OwnConnection[];
    let key: string;
    let tests = 0;

    const open = async () => {
      const connection = await openConnection[dialect](server.url);
      opened.push(connection);
      return connection;
    };
    const service = (): LockService => openServiceOn(store(server.url));
    /** For callers that wait for no row: a busy machine may take longer than usual for a connection. */
    const patient = (): LockService => openServiceOn(store(server.url, PATIENT));
    /** A transaction that has written and is about to be committed. It is rolled back if it is refused. */
    const sell = async (lock: Held, options?: HeldUntilCommitOptions) => {
      const connection = sellers.pop() ?? (await open());
      await connection.run('BEGIN');
      await connection.run(`INSERT INTO sales VALUES ('${key}')`);
      try {
        await heldUntilCommit(connection.query, lock, { dialect, ...options });
      } catch (error) {
        await connection.run('ROLLBACK');
        throw error;
      }
      return connection;
    };
    const sold = async () => (await reader.run(`SELECT id FROM sales WHERE id = '${key}'`)).length;

    beforeEach(async () => {
      key = `goods:${++tests}`;
      [reader, ...sellers] = await Promise.all([open(), open(), open()]);
      await reader.run('CREATE TABLE IF NOT EXISTS sales (id varchar(40))');
    });
    afterEach(async () => {
      for (const connection of opened.splice(0)) connection.cut();
      await closeServices();
    });

    it('nobody else is granted the lock before the commit, however long the lease has been over', async () => {
      const lock = await patient().acquire(key, { leaseMs: LEASE_MS });
      const connection = await sell(lock);
      const rival = service().withLock(key, { waitMs: Infinity }, sold);
      const granted = watch(rival);
      await pastMs(2 * LEASE_MS);
      expect(granted.isSettled).toBe(false);
      await connection.run('COMMIT');
      expect(await rival).toBe(1);
    });

    it('a rollback lets the next owner in, and nothing is written', async () => {
      const lock = await patient().acquire(key, { leaseMs: LEASE_MS });
      const connection = await sell(lock);
      await connection.run('ROLLBACK');
      expect(await service().withLock(key, { waitMs: Infinity }, sold)).toBe(0);
    });

    it('the death of its process lets the next owner in, and nothing is written', async () => {
      const lock = await patient().acquire(key, { leaseMs: LEASE_MS });
      (await sell(lock)).cut();
      expect(await service().withLock(key, { waitMs: Infinity }, sold)).toBe(0);
    });

    it('a holder whose lock another owner has is refused, and nothing of its transaction is written', async () => {
      const late = frozen(await patient().acquire(key, { leaseMs: LEASE_MS }));
      const next = await patient().acquire(key, { waitMs: Infinity });
      const error = await failureOf(sell(late));
      expect(error).toBeInstanceOf(CommitRefusedError);
      expect(error).toMatchObject({ key, code: 'LOCK_LOST', message: expect.stringContaining('is held by') });
      await (await sell(next)).run('COMMIT');
      expect(await sold()).toBe(1);
    });

    it('a caller that gave up while it waited for the commit is not granted the lock afterwards', async () => {
      const lock = await patient().acquire(key, { leaseMs: LEASE_MS });
      const connection = await sell(lock);
      const rival = service();
      const failure = await failureOf(rival.acquire(key, { waitMs: 2 * LEASE_MS }));
      expect(failure).toMatchObject({ code: expect.stringMatching(/^LOCK_(WAIT_TIMEOUT|STORE)$/) });
      await connection.run('COMMIT');
      await until(async () => (await rival.inspect(key)) === null);
      // Its last statement may have been left waiting for the row in the server.
      await pastMs(2 * COMMAND_TIMEOUT_MS);
      expect(await rival.inspect(key)).toBeNull();
    });

    it('a connection without a transaction, which unlocks the row at once, is refused where the server tells', async () => {
      const lock = await patient().acquire(key);
      const { query } = await open();
      const outcome = await heldUntilCommit(query, lock, { dialect }).then(
        () => 'not told',
        (error: LockError) => error.code,
      );
      expect(outcome).toBe(tellsTransactions ? 'LOCK_CONFIGURATION' : 'not told');
    });

    if (sharesDialect) return;

    it('a holder whose lease is over is refused, also when no other owner has the lock', async () => {
      const lock = await patient().acquire(key);
      await reader.run(`UPDATE nest_lock SET at = at - 40000000 WHERE name = '${key}'`);
      await expect(sell(lock)).rejects.toThrow(/its lease ended \d+ ms ago by the clock of the server/);
      const brief = await patient().acquire(`${key}:brief`, { leaseMs: 50 });
      await until(() => brief.validForMs === 0);
      await expect(sell(brief)).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
      expect(await sold()).toBe(0);
    });

    it('a holder that has released, or was released by force, is refused', async () => {
      const locks = patient();
      const lock = await locks.acquire(key);
      const late = frozen(lock);
      await lock.release();
      await expect(sell(lock)).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
      await expect(sell(late)).rejects.toThrow('the lock is free');
      const forced = frozen(await locks.acquire(key));
      await patient().forceRelease(key);
      await expect(sell(forced)).rejects.toThrow('the lock is free');
    });

    it('each local hand-off and each nested call is the same grant, with its own token', async () => {
      const locks = patient();
      const sellHere = () =>
        locks.withLock(key, { waitMs: Infinity }, async () => {
          await locks.withLock(key, async (lock) => (await sell(lock)).run('COMMIT'));
        });
      await Promise.all([sellHere(), sellHere(), sellHere()]);
      expect(await sold()).toBe(3);
    });

    it('readers hold the lock together, and the writer waits for the commit of each', async () => {
      const readers = await Promise.all(
        [patient(), patient()].map((locks) => locks.acquire(key, { mode: 'shared', leaseMs: LEASE_MS })),
      );
      const [one, other] = await Promise.all(readers.map((lock) => sell(lock)));
      const writer = service().withLock(key, { mode: 'exclusive', waitMs: Infinity }, sold);
      const granted = watch(writer);
      await pastMs(1.5 * LEASE_MS);
      await one?.run('COMMIT');
      await pastMs(1.5 * LEASE_MS);
      expect(granted.isSettled).toBe(false);
      await other?.run('COMMIT');
      expect(await writer).toBe(2);
    });

    it('the holder of a permit holds it until the commit', async () => {
      const permit = { permits: 2, leaseMs: LEASE_MS };
      const locks = await Promise.all([1, 2].map(() => patient().acquire(key, permit)));
      const [one, other] = await Promise.all(locks.map((lock) => sell(lock)));
      const third = service().withLock(key, { permits: 2, waitMs: Infinity }, sold);
      const granted = watch(third);
      await pastMs(2 * LEASE_MS);
      expect(granted.isSettled).toBe(false);
      await one?.run('COMMIT');
      await other?.run('COMMIT');
      expect(await third).toBe(2);
    });

    it('several keys are held together, and refused together', async () => {
      const keys = [`${key}:b`, `${key}:a`, `${key}:ä€😀`];
      const lock = await patient().acquire(keys, { leaseMs: LEASE_MS });
      const connection = await sell(lock);
      const rivals = keys.map((each) => service().withLock(each, { waitMs: Infinity }, sold));
      const granted = rivals.map(watch);
      await pastMs(2 * LEASE_MS);
      expect(granted.map(({ isSettled }) => isSettled)).toEqual([false, false, false]);
      await connection.run('COMMIT');
      expect(await Promise.all(rivals)).toEqual([1, 1, 1]);
      const late = frozen(await patient().acquire(keys));
      await patient().forceRelease(keys[1] as string);
      await expect(sell(late)).rejects.toMatchObject({ key: keys[1] });
    });

    it('a process that waits for the commit loses none of its other locks, and acquires others', async () => {
      const watchdogTimeoutMs = 4 * COMMAND_TIMEOUT_MS;
      const rival = openServiceOn(store(server.url), { watchdogTimeoutMs });
      const others = await Promise.all(
        Array.from({ length: 20 }, (_, i) => rival.acquire(`${key}:held:${i}`)),
      );
      const lock = await patient().acquire(key, { leaseMs: LEASE_MS });
      const connection = await sell(lock);
      const waiting = rival.withLock(key, { waitMs: Infinity }, sold);
      const granted = watch(waiting);
      for (const endsAt = performance.now() + 1.5 * watchdogTimeoutMs; performance.now() < endsAt;) {
        await rival.withLock(`${key}:other`, () => undefined);
      }
      expect(granted.isSettled).toBe(false);
      for (const other of others) other.assertHeld();
      await connection.run('COMMIT');
      expect(await waiting).toBe(1);
    });

    it('a watchdog that waits for the commit keeps the lock', async () => {
      const watchdogTimeoutMs = 6 * COMMAND_TIMEOUT_MS;
      const locks = openServiceOn(store(server.url), { watchdogTimeoutMs });
      await locks.withLock(key, async (lock) => {
        const firstLease = pastMs(1.2 * watchdogTimeoutMs);
        const connection = await sell(lock);
        await pastMs(watchdogTimeoutMs / 2);
        await connection.run('COMMIT');
        await firstLease;
        lock.assertHeld();
        await (await sell(lock)).run('COMMIT');
      });
      expect(await sold()).toBe(2);
    });

    it('names the prefix and the table of its store', async () => {
      const prefixed = openServiceOn(store(server.url), { keyPrefix: 'shop:' });
      const lock = await prefixed.acquire(key);
      await (await sell(lock, { keyPrefix: 'shop:' })).run('COMMIT');
      await expect(sell(lock)).rejects.toThrow(`nest_lock has no row "${key}"`);
    });

    it('a lock that is not in this database is refused in words of this library', async () => {
      const lock = await patient().acquire(key);
      const failure = await failureOf(sell(lock, { table: 'elsewhere' }));
      expect(failure).toMatchObject({
        code: 'LOCK_CONFIGURATION',
        message: expect.stringMatching(/^Your locks are not in this database: it has no table elsewhere\./),
      });
    });

    it('a transaction that has written nothing holds the lock all the same', async () => {
      const connection = await open();
      await connection.run('BEGIN');
      const lock = await patient().acquire(key, { leaseMs: LEASE_MS });
      await heldUntilCommit(connection.query, lock, { dialect });
      const granted = watch(service().withLock(key, { waitMs: Infinity }, sold));
      await pastMs(2 * LEASE_MS);
      expect(granted.isSettled).toBe(false);
      await connection.run('COMMIT');
      await until(() => granted.isSettled);
    });

    if (name !== 'postgres') return;

    it.each(['REPEATABLE READ', 'SERIALIZABLE'])(
      'at %s it is refused with 40001 when the row was written after the snapshot, and passes as the first statement',
      async (level) => {
        const lock = await patient().acquire(key, { leaseMs: 10_000 });
        const connection = await open();
        await connection.run(`BEGIN ISOLATION LEVEL ${level}`);
        await connection.run('SELECT count(*) FROM nest_lock');
        await lock.extend(20_000);
        await expect(heldUntilCommit(connection.query, lock)).rejects.toMatchObject({ code: '40001' });
        await connection.run('ROLLBACK');
        await connection.run(`BEGIN ISOLATION LEVEL ${level}`);
        await heldUntilCommit(connection.query, lock);
        await connection.run('COMMIT');
      },
    );
  });
}
