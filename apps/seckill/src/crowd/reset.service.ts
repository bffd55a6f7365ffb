import { Injectable } from '@nestjs/common';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import { Database } from '../database/database.js';
import { GoodsRepository } from '../goods/goods.repository.js';

const RESET = `
  WITH gone AS (DELETE FROM orders WHERE goods_id = $1)
  UPDATE goods SET stock = offered, fence = $2 WHERE id = $1 AND fence <= $2`;

/** Puts all goods of the page back into stock. */
@Injectable()
export class ResetService {
  constructor(
    private readonly locks: LockService,
    private readonly database: Database,
    private readonly goods: GoodsRepository,
  ) {}

  /** Under the locks of all items: no purchase sees half of it. */
  async reset(): Promise<void> {
    const ids = (await this.goods.shown()).map(({ id }) => id);
    const keyOf = (id: number) => lockKey`goods:${id}`;
    await this.locks.withLock(ids.map(keyOf), async (lock) => {
      for (const id of ids) await this.database.query(RESET, [id, lock.tokenOf(keyOf(id))]);
    });
  }
}
