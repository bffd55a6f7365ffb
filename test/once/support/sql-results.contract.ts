import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { memoryStore } from 'nestjs-distributed-lock';
import type { SqlDialect, SqlQuery } from 'nestjs-distributed-lock/guard';
import { OnceService, sqlResults } from 'nestjs-distributed-lock/once';
import { failureOf, openServiceOn } from '../../support/lock-services.js';
import { describeResultStore } from './results.contract.js';

export interface SqlPool {
  readonly query: SqlQuery;
  /** Runs `work` in a transaction on a connection of its own: commits if it succeeds, and rolls back if it fails. */
  readonly transaction: <T>(work: (query: SqlQuery) => Promise<T>) => Promise<T>;
}

/** What `sqlResults` must do, alone and in transactions of an application. */
export function describeSqlResults(
  name: string,
  { dialect, interleaves }: { readonly dialect: SqlDialect; readonly interleaves: boolean },
  pool: () => SqlPool,
): void {
  describeResultStore(name, () =>
    sqlResults((sql, parameters) => pool().query(sql, parameters), { dialect }),
  );

  describe(`attempt.rememberIn on ${name}`, () => {
    const options = { keepForMs: 3_600_000 };
    const table = dialect === 'mysql' ? '`once_sales`' : '"once_sales"';
    const mark = dialect === 'mysql' ? '?' : '$1';
    let key: string;
    const openOnce = () =>
      new OnceService(openServiceOn(memoryStore(), { waitMs: 10_000 }), {
        results: sqlResults(pool().query, { dialect }),
      });
    const countSales = async () => {
      const answer = await pool().query(`SELECT id FROM ${table} WHERE id = ${mark}`, [key]);
      return (Array.isArray(answer) ? answer : (answer as { rows: unknown[] }).rows).length;
    };
    const sellIn = (once: OnceService, before = async (): Promise<void> => {}) =>
      once.outcomeOf(key, options, (attempt) =>
        pool().transaction(async (query) => {
          await query(`INSERT INTO ${table} VALUES (${mark})`, [key]);
          await before();
          await attempt.rememberIn(query, { sold: key });
          return { sold: key };
        }),
      );

    beforeEach(async () => {
      key = `sale:${randomUUID()}`;
      await pool().query(`CREATE TABLE IF NOT EXISTS ${table} (id varchar(80))`, []);
    });

    it('the result is there as soon as the data is committed, and later calls get it', async () => {
      const once = openOnce();
      expect(await sellIn(once)).toEqual({ value: { sold: key }, isReplay: false });
      expect(await sellIn(once)).toEqual({ value: { sold: key }, isReplay: true });
      expect(await countSales()).toBe(1);
    });

    it('a transaction that is rolled back leaves no result, and the next call works', async () => {
      const once = openOnce();
      const failing = once.run(key, options, (attempt) =>
        pool().transaction(async (query) => {
          await query(`INSERT INTO ${table} VALUES (${mark})`, [key]);
          await attempt.rememberIn(query, 'never');
          throw new Error('out of stock');
        }),
      );
      expect(await failureOf(failing)).toMatchObject({ message: 'out of stock' });
      expect(await countSales()).toBe(0);
      expect(await sellIn(once)).toMatchObject({ isReplay: false });
      expect(await countSales()).toBe(1);
    });

    const whereTransactionsInterleave = interleaves ? it : it.skip;
    whereTransactionsInterleave(
      'work whose lock another process has had since is rolled back, and its caller gets the result of the other',
      async () => {
        // Two services in memory exclude each other as little as two processes of which one has lost its lock.
        const [late, next] = [openOnce(), openOnce()];
        const outcome = await sellIn(late, async () => {
          expect(await sellIn(next)).toMatchObject({ isReplay: false });
        });
        expect(outcome).toEqual({ value: { sold: key }, isReplay: true });
        expect(await countSales()).toBe(1);
      },
    );

    whereTransactionsInterleave('of twenty transactions at the same time one is committed', async () => {
      const services = Array.from({ length: 20 }, openOnce);
      const outcomes = await Promise.all(services.map((once) => sellIn(once)));
      expect(outcomes.filter(({ isReplay }) => !isReplay)).toHaveLength(1);
      expect(await countSales()).toBe(1);
    });

    it('of two results that are inserted for one key, the second is refused', async () => {
      const results = sqlResults(pool().query, { dialect });
      await results.prepare?.();
      const insert = (token: number) =>
        pool().transaction((query) => results.insert(query, key, { token, text: String(token) }, 60_000));
      expect(await insert(2)).toBe(true);
      // Larger or smaller: the work was done.
      expect(await insert(3)).toBe(false);
      expect(await insert(1)).toBe(false);
      expect(await results.read(key)).toEqual({ token: 2, text: '2' });
    });

    it('a result whose time is over does not keep a new one out', async () => {
      const results = sqlResults(pool().query, { dialect });
      await results.prepare?.();
      await results.write(key, { token: 5, text: 'old' }, 1);
      await new Promise((resolve) => setTimeout(resolve, 5));
      expect(await results.insert(pool().query, key, { token: 4, text: 'new' }, 60_000)).toBe(true);
    });
  });
}
