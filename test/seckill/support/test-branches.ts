import { fileURLToPath } from 'node:url';
import pg from 'pg';
import type { RedisServer } from '#redis-server';
import { openBranches, type Branches } from '../../../apps/seckill/src/demo/branches.js';
import type { Instance } from '../../../apps/seckill/src/demo/instance.js';
import { post, type Answer } from '../../../apps/seckill/src/crowd/http-client.js';

const PROGRAM = fileURLToPath(new URL('../../../dist/apps/seckill/main.js', import.meta.url));

/** Processes of the app as built, on a Redis and a database of their own. */
export interface TestBranches extends Branches {
  readonly redis: RedisServer;
  /** @returns the id of a new item */
  addItem(stock: number): Promise<number>;
  /** Keeps every statement of the app waiting until the returned function is called. */
  holdDatabase(): Promise<() => Promise<void>>;
}

export async function openTestBranches(count: number, env: Record<string, string>): Promise<TestBranches> {
  const branches = await openBranches({ program: PROGRAM, count, env });
  return {
    ...branches,
    redis: branches.redis!,
    async addItem(stock) {
      const sql = 'INSERT INTO goods (name, stock, offered) VALUES ($1, $2, $2) RETURNING id';
      const [row] = await branches.database.query<{ id: number }>(sql, ['item', stock]);
      return row!.id;
    },
    async holdDatabase() {
      // The embedded Postgres serves one transaction at a time.
      const client = new pg.Client(branches.databaseUrl);
      await client.connect();
      await client.query('BEGIN');
      return async () => {
        await client.query('ROLLBACK');
        await client.end();
      };
    },
  };
}

export function purchase({ url }: Instance, goodsId: number, userId: string): Promise<Answer> {
  return post(`${url}/goods/${goodsId}/purchase`, {}, { 'x-user-id': userId });
}

/** Resolves when the process has read whatever had come to it before: the second answer is from a later turn of its loop. */
export async function untilCaughtUp({ url }: Instance): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await post(`${url}/nowhere`, {});
}
