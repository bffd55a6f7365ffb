import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { LockService } from 'nestjs-distributed-lock';
import { heldUntilCommit } from 'nestjs-distributed-lock/guard';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import pg from 'pg';
import { HeldSale } from '../../docs/recipes/held-sale.js';
import { failureOf } from '../../support/lock-services.js';
import type { OpenTransactions, Transactions } from './fenced-transactions.contract.js';

const LEASE_MS = 300;

/** What holds for `heldUntilCommit` at the end of a transaction, whoever opens it. */
export function describeHeldUntilCommit(name: string, url: () => string, open: OpenTransactions): void {
  describe(`heldUntilCommit in a transaction of ${name}`, () => {
    const key = `sales of ${name}`;
    let orm: Transactions;
    let locks: LockService;
    let rival: LockService;

    beforeAll(async () => {
      orm = await open(url(), 4);
      locks = new LockService({ store: postgresStore(url()) });
      rival = new LockService({ store: postgresStore(url()) });
      locks.open();
      rival.open();
      await orm.transaction((inside) => inside.run('CREATE TABLE IF NOT EXISTS held_sales (seller text)'));
    });
    afterAll(() => Promise.all([orm?.close(), locks?.close(), rival?.close()]));

    it('lets nobody in before the commit, also when the lease is over', async () => {
      const order: string[] = [];
      const lock = await locks.acquire(key, { leaseMs: LEASE_MS });
      let next: Promise<unknown> = Promise.resolve();
      await orm.transaction(async (inside) => {
        await inside.run(`INSERT INTO held_sales VALUES ('${name}')`);
        await heldUntilCommit(inside.query, lock);
        next = rival.withLock(key, { waitMs: Infinity }, () => void order.push('next'));
        await new Promise((resolve) => setTimeout(resolve, 3 * LEASE_MS));
        order.push('commit');
      });
      await next;
      expect(order).toEqual(['commit', 'next']);
    });

    it('rolls back what it has written under a lock that is lost', async () => {
      const lock = await locks.acquire(key);
      await rival.forceRelease(key);
      const late = { keys: lock.keys, tokenOf: () => lock.fencingToken, assertHeld: () => undefined };
      const failure = await failureOf(
        orm.transaction(async (inside) => {
          await inside.run('DELETE FROM held_sales');
          await heldUntilCommit(inside.query, late);
        }),
      );
      expect(failure).toMatchObject({ code: 'LOCK_LOST', key });
      await expect(
        orm.transaction((inside) => inside.run('SELECT 1 / count(*) FROM held_sales')),
      ).resolves.toBeDefined();
    });
  });
}

/** The recipe, with its locks and goods in one database. */
export function describeHeldSale(url: () => string): void {
  it('the recipe of a sale that is held until its commit sells what there is', async () => {
    const pool = new pg.Pool({ connectionString: url() });
    const locks = new LockService({ store: postgresStore(url()) });
    locks.open();
    try {
      await pool.query('DROP TABLE IF EXISTS goods; CREATE TABLE goods (id int PRIMARY KEY, stock int)');
      await pool.query('INSERT INTO goods VALUES (1, 3)');
      const sale = new HeldSale(locks, pool);
      const sales = await Promise.allSettled(Array.from({ length: 5 }, () => sale.sellOne(1)));
      const left = sales.map((sold) => (sold.status === 'fulfilled' ? sold.value : String(sold.reason)));
      expect(left).toEqual([2, 1, 0, 'Error: sold out', 'Error: sold out']);
      expect((await pool.query('SELECT stock FROM goods')).rows).toEqual([{ stock: 0 }]);
    } finally {
      await locks.close();
      await pool.end();
    }
  });
}
