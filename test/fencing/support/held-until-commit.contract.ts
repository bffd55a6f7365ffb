import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { LockService } from 'nestjs-distributed-lock';
import { heldUntilCommit } from 'nestjs-distributed-lock/guard';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { failureOf } from '../../support/lock-services.js';
import type { OpenTransactions, Transactions } from './fenced-transactions.contract.js';

const LEASE_MS = 600;

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
      let next: Promise<unknown> = Promise.resolve();
      await orm.transaction(async (inside) => {
        await inside.run(`INSERT INTO held_sales VALUES ('${name}')`);
        // Last, so that one statement must come within the lease, also on a busy machine.
        const lock = await locks.acquire(key, { leaseMs: LEASE_MS });
        await heldUntilCommit(inside.query, lock);
        next = rival.withLock(key, { waitMs: Infinity }, () => void order.push('next'));
        await new Promise((resolve) => setTimeout(resolve, 2 * LEASE_MS));
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

    it('lets the recipe sell what there is, and nothing under a lock that is lost', async () => {
      await orm.transaction(async (inside) => {
        await inside.run(
          'CREATE TABLE IF NOT EXISTS goods (id int PRIMARY KEY, stock int, fence bigint DEFAULT 0)',
        );
        await inside.run('DELETE FROM goods');
        await inside.run('INSERT INTO goods (id, stock) VALUES (1, 3), (2, 3)');
      });
      const recipe = orm.sales(locks);
      const sales = await Promise.allSettled(Array.from({ length: 5 }, () => recipe.sellHeld(1)));
      const left = sales.map((sold) => (sold.status === 'fulfilled' ? sold.value : String(sold.reason)));
      expect(left).toEqual([2, 1, 0, 'Error: sold out', 'Error: sold out']);
      const unaware = Object.create(locks, {
        withLock: {
          value: async (of: string, work: (lock: unknown) => Promise<unknown>) => {
            const lock = await locks.acquire(of);
            await rival.forceRelease(of);
            const { keys, fencingToken } = lock;
            return work({ keys, tokenOf: () => fencingToken, assertHeld: () => undefined });
          },
        },
      }) as LockService;
      await expect(orm.sales(unaware).sellHeld(2)).rejects.toMatchObject({ code: 'LOCK_LOST' });
      expect(await recipe.sellHeld(2)).toBe(2); // the refused sale was rolled back
    });
  });
}
