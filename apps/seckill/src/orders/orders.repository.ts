import { Injectable } from '@nestjs/common';
import { Database, isUniqueViolation } from '../database/database.js';
import { AlreadyBought, StaleFence } from '../goods/goods.errors.js';
import type { Goods } from '../goods/goods.js';
import type { Order } from './order.js';

const COLUMNS = 'id, goods_id AS "goodsId", user_id AS "userId", fence';

/** One statement, so that stock and order change together or not at all. */
const PLACE = `
  WITH item AS (
    UPDATE goods SET stock = $2, fence = $3 WHERE id = $1 AND fence <= $3 RETURNING id
  )
  INSERT INTO orders (goods_id, user_id, fence) SELECT id, $4, $3 FROM item
  RETURNING ${COLUMNS}`;

@Injectable()
export class OrdersRepository {
  constructor(private readonly database: Database) {}

  of(goodsId: number): Promise<readonly Order[]> {
    const sql = `SELECT ${COLUMNS} FROM orders WHERE goods_id = $1 ORDER BY id`;
    return this.database.query<Order>(sql, [goodsId]);
  }

  async has(goodsId: number, userId: string): Promise<boolean> {
    const sql = 'SELECT id FROM orders WHERE goods_id = $1 AND user_id = $2';
    return (await this.database.query(sql, [goodsId, userId])).length > 0;
  }

  /**
   * Writes the order and what is left of the item.
   *
   * @param fence the fencing token; an item that has seen a larger one refuses
   * @throws StaleFence, AlreadyBought
   */
  async place(goods: Goods, stock: number, fence: number, userId: string): Promise<Order> {
    try {
      const [order] = await this.database.query<Order>(PLACE, [goods.id, stock, fence, userId]);
      if (order) return order;
    } catch (error) {
      throw isUniqueViolation(error) ? new AlreadyBought(goods.name) : error;
    }
    throw new StaleFence(goods.id, fence);
  }
}
