import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { LockService, memoryStore } from 'nestjs-distributed-lock';
import { StaleTokenError, type Fence, type SqlQuery } from 'nestjs-distributed-lock/guard';
import pg from 'pg';
import { failureOf } from '../../support/lock-services.js';
import { until } from '#until';
import { within } from '../../support/within.js';

/** One way to Postgres, as its recipe goes it. */
export interface Transactions {
  /** Commits when `work` resolves, rolls back and rejects with its error when it rejects. */
  transaction(work: (inside: Inside) => Promise<unknown>): Promise<unknown>;
  /** The recipe as it is shown. */
  sales(locks: LockService): Sales;
  close(): Promise<unknown>;
}

export interface Sales {
  sellGuarded(id: number): Promise<number>;
  sellHeld(id: number): Promise<number>;
}

export interface Inside {
  /** For `heldUntilCommit`. */
  readonly query: SqlQuery;
  /** `UPDATE goods SET fence = $token WHERE id = $id AND fence <= $token`, and a throw if it changed no row. */
  raiseFence(id: number, fence: Fence): Promise<unknown>;
  /** A statement of the program itself, in its transaction. */
  run(sql: string): Promise<unknown>;
}

export type OpenTransactions = (url: string, connections: number) => Promise<Transactions>;

/** As large as real ones are: they do not fit into 32 bits, nor into the 14 digits that some print. */
const at = (token: number, key = 'goods:7'): Fence => ({ key, fencingToken: 1_795_237_040_328_412 + token });
const PATIENCE_MS = 5_000;

const TABLES = `
  DROP TABLE IF EXISTS goods, sales;
  CREATE TABLE goods (id int PRIMARY KEY, stock int NOT NULL, fence bigint NOT NULL DEFAULT 0);
  CREATE TABLE sales (id int)`;

export interface Server {
  readonly url: string;
  /** Whether two transactions can be under way at once; the embedded Postgres takes them in turns. */
  readonly interleaves: boolean;
}

/** What holds for a fence that a transaction raises, whoever opens it. */
export function describeFencedTransactions(name: string, server: () => Server, open: OpenTransactions): void {
  describe(`a fence raised in a transaction of ${name}`, () => {
    let admin: pg.Client;
    let orm: Transactions;
    let narrow: Transactions;

    beforeAll(async () => {
      admin = new pg.Client(server().url);
      // Ends with the server, should a test leave a transaction open.
      admin.on('error', () => {});
      await admin.connect();
      await admin.query(TABLES);
      orm = await open(server().url, 4);
      narrow = await open(server().url, 1);
    }, 60_000);
    beforeEach(() =>
      admin.query('TRUNCATE goods, sales; INSERT INTO goods (id, stock) VALUES (1, 3), (7, 5), (8, 5)'),
    );
    afterAll(async () => {
      await within(PATIENCE_MS, Promise.all([orm?.close(), narrow?.close(), admin?.end()]));
    });

    const row = async (id: number) => {
      const { rows } = await admin.query<{ stock: number; fence: string }>(
        'SELECT stock, fence FROM goods WHERE id = $1',
        [id],
      );
      return { stock: rows[0]!.stock, fence: Number(rows[0]!.fence) };
    };

    it('needs no connection but that of its transaction', async () => {
      await within(
        PATIENCE_MS,
        narrow.transaction(async (inside) => {
          await inside.raiseFence(7, at(1));
          await inside.run('UPDATE goods SET stock = stock - 1 WHERE id = 7');
        }),
      );
      expect(await row(7)).toEqual({ stock: 4, fence: at(1).fencingToken });
    });

    it('does not wait for what its own transaction has locked', async () => {
      await within(
        PATIENCE_MS,
        orm.transaction(async (inside) => {
          await inside.run('UPDATE goods SET stock = stock - 1 WHERE id = 7');
          await inside.raiseFence(7, at(1));
        }),
      );
      expect(await row(7)).toEqual({ stock: 4, fence: at(1).fencingToken });
    });

    it('is rolled back with its transaction: neither the fence nor a write stays', async () => {
      const failure = await failureOf(
        orm.transaction(async (inside) => {
          await inside.raiseFence(7, at(1));
          await inside.run('INSERT INTO sales VALUES (7)');
          throw new Error('changed my mind');
        }),
      );
      expect(failure).toMatchObject({ message: 'changed my mind' });
      expect(await row(7)).toEqual({ stock: 5, fence: 0 });
      expect((await admin.query('SELECT * FROM sales')).rows).toEqual([]);
    });

    it('refuses a stale token, and the transaction leaves nothing behind', async () => {
      await orm.transaction((inside) => inside.raiseFence(7, at(2)));
      const failure = await failureOf(
        orm.transaction(async (inside) => {
          await inside.run('INSERT INTO sales VALUES (7)');
          await inside.raiseFence(7, at(1));
        }),
      );
      expect(failure).toBeInstanceOf(StaleTokenError);
      expect(failure).toMatchObject({
        tokenOffered: at(1).fencingToken,
        tokenSeen: at(2).fencingToken,
      });
      expect(await row(7)).toEqual({ stock: 5, fence: at(2).fencingToken });
      expect((await admin.query('SELECT * FROM sales')).rows).toEqual([]);
    });

    it('may come several times in one transaction, which passes all of them or none', async () => {
      await orm.transaction(async (inside) => {
        await inside.raiseFence(7, at(1));
        await inside.raiseFence(8, at(5, 'goods:8'));
        await inside.raiseFence(7, at(1));
      });
      const refused = orm.transaction(async (inside) => {
        await inside.raiseFence(7, at(2));
        await inside.raiseFence(8, at(4, 'goods:8'));
      });
      await expect(refused).rejects.toMatchObject({ code: 'LOCK_LOST', key: 'goods:8' });
      expect(await row(7)).toEqual({ stock: 5, fence: at(1).fencingToken });
      expect(await row(8)).toEqual({ stock: 5, fence: at(5).fencingToken });
    });

    it('tells a row that is not there from one that refuses', async () => {
      const failure = await failureOf(orm.transaction((inside) => inside.raiseFence(9, at(1))));
      expect(failure).toBeInstanceOf(Error);
      expect(failure).not.toBeInstanceOf(StaleTokenError);
    });

    /** A later holder in its transaction, an earlier one that comes meanwhile, and what became of that. */
    const meanwhile = async (end: () => void): Promise<PromiseSettledResult<unknown>> => {
      let early: Promise<unknown> = Promise.resolve();
      const later = orm.transaction(async (inside) => {
        await inside.raiseFence(7, at(2));
        early = orm.transaction(async (other) => {
          await other.raiseFence(7, at(1));
          await other.run('UPDATE goods SET stock = 1 WHERE id = 7');
        });
        early.catch(() => {});
        if (server().interleaves) await until(isSomebodyWaiting);
        await inside.run('UPDATE goods SET stock = 4 WHERE id = 7');
        end();
      });
      await within(PATIENCE_MS, Promise.allSettled([later]));
      const [settled] = await within(PATIENCE_MS, Promise.allSettled([early]));
      return settled;
    };
    const isSomebodyWaiting = async (): Promise<boolean> => {
      const { rowCount } = await admin.query(`SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'`);
      return rowCount === 1;
    };

    it('lets an earlier holder wait for the transaction of a later one, and refuses it when that commits', async () => {
      const early = await meanwhile(() => {});
      expect(early).toMatchObject({ status: 'rejected', reason: { tokenSeen: at(2).fencingToken } });
      expect(await row(7)).toEqual({ stock: 4, fence: at(2).fencingToken });
    });

    it('lets an earlier holder pass when the transaction of a later one, which then has read nothing, is rolled back', async () => {
      const early = await meanwhile(() => {
        throw new Error('changed my mind');
      });
      expect(early).toMatchObject({ status: 'fulfilled' });
      expect(await row(7)).toEqual({ stock: 1, fence: at(1).fencingToken });
    });

    it('lets the recipe sell what there is, and nothing once a larger token was seen', async () => {
      const locks = new LockService({ store: memoryStore() });
      locks.open();
      try {
        const recipe = orm.sales(locks);
        const sales = await Promise.allSettled(Array.from({ length: 5 }, () => recipe.sellGuarded(1)));
        const left = sales.map((sale) => (sale.status === 'fulfilled' ? sale.value : sale.reason.message));
        expect(left).toEqual([2, 1, 0, 'sold out', 'sold out']);
        await admin.query('UPDATE goods SET stock = 5, fence = $1 WHERE id = 1', [Number.MAX_SAFE_INTEGER]);
        await expect(recipe.sellGuarded(1)).rejects.toMatchObject({ code: 'LOCK_LOST' });
        expect(await row(1)).toEqual({ stock: 5, fence: Number.MAX_SAFE_INTEGER });
      } finally {
        await locks.close();
      }
    });
  });
}
