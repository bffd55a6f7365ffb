import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { readConfig } from '../../../apps/seckill/src/config.js';
import { openBranches, type Branches } from '../../../apps/seckill/src/demo/branches.js';
import type { Instance } from '../../../apps/seckill/src/demo/instance.js';
import { post, type Answer } from '../../../apps/seckill/src/crowd/http-client.js';

const PROGRAM = fileURLToPath(new URL('../../../dist/apps/seckill/main.js', import.meta.url));

/** Processes of the app as built, on servers of their own. */
export interface TestBranches extends Branches {
  readonly lockServer: NonNullable<Branches['lockServer']>;
  /** @returns the id of a new item */
  addItem(stock: number): Promise<number>;
  /** Keeps every statement on the goods waiting until the returned function is called. */
  holdDatabase(): Promise<() => Promise<void>>;
}

export async function openTestBranches(count: number, env: Record<string, string>): Promise<TestBranches> {
  const config = readConfig({ STORE: 'redis' });
  const branches = await openBranches({ program: PROGRAM, count, config, env });
  return {
    ...branches,
    lockServer: branches.lockServer!,
    async addItem(stock) {
      const sql = 'INSERT INTO goods (name, stock, offered) VALUES ($1, $2, $2) RETURNING id';
      const [row] = await branches.database.query<{ id: number }>(sql, ['item', stock]);
      return row!.id;
    },
    async holdDatabase() {
      const client = new pg.Client(branches.config.databaseUrl);
      await client.connect();
      await client.query('BEGIN');
      await client.query('LOCK TABLE goods');
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
