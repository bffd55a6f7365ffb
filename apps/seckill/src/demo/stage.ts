import { setTimeout as pause } from 'node:timers/promises';
import { LockService } from 'nestjs-distributed-lock';
import { Database } from '../database.js';
import { launch, type Shop } from '../launch.js';
import { lockStore, type Environment } from '../settings.js';

/** The scenes of the demo share it: a running shop, and direct access to the shop's database and locks. */
export interface Stage {
  readonly shop: Shop;
  readonly database: Database;
  readonly locks: LockService;
  /** @returns the id of a new item */
  readonly addItem: (stock: number) => Promise<number>;
  /** Resolves when a purchase holds the lock of a new item and has read its stock. */
  readonly untilRead: (goodsId: number) => Promise<void>;
  close(): Promise<void>;
}

export async function openStage(instances: number, env: Environment, program?: string): Promise<Stage> {
  const shop = await launch(instances, env, program);
  const database = new Database(shop.databaseUrl);
  const locks = new LockService({ store: lockStore(shop.databaseUrl, env['REDIS_URL']) });
  return {
    shop,
    database,
    locks,
    async addItem(stock) {
      const sql = 'INSERT INTO goods (name, stock, offered) VALUES ($1, $2, $2) RETURNING id';
      const [row] = await database.query<{ id: number }>(sql, ['demo', stock]);
      return row!.id;
    },
    async untilRead(goodsId) {
      // Each read under the lock leaves its fencing token.
      while (
        (await database.query('SELECT FROM goods WHERE id = $1 AND fence > 0', [goodsId])).length === 0
      ) {
        await pause(2);
      }
    },
    async close() {
      await locks.close();
      await database.close();
      await shop.close();
    },
  };
}
