import { Injectable } from '@nestjs/common';
import { Database, isNotNullViolation, isUniqueViolation } from '../database/database.js';
import { AlreadyBought, StaleFence } from '../goods/goods.errors.js';
import type { Goods } from '../goods/goods.js';
import { InstanceService } from '../instances/instance.service.js';
import type { Order } from './order.js';

/** One item of an order, as it was read, and the fencing token of its lock. */
export interface OrderLine {
  readonly goods: Goods;
  readonly fence: number;
}

const COLUMNS = 'id, goods_id AS "goodsId", user_id AS "userId", fence';

/**
 * One statement, so that stocks and orders change together or not at all. An item that has seen a larger token is not
 * updated; its order then has no item, which the table refuses, and with it the whole statement.
 */
const PLACE = `
  WITH line AS (
    SELECT * FROM unnest($1::integer[], $2::integer[], $3::bigint[], $4::timestamptz[])
      AS line (id, stock, fence, read_at)
  ), item AS (
    UPDATE goods SET stock = line.stock, fence = line.fence FROM line
    WHERE goods.id = line.id AND goods.fence <= line.fence RETURNING goods.id
  )
  INSERT INTO orders (goods_id, user_id, fence, instance, read_at)
  SELECT item.id, $5, line.fence, $6, line.read_at FROM line LEFT JOIN item USING (id)
  RETURNING ${COLUMNS}`;

@Injectable()
export class OrdersRepository {
  constructor(
    private readonly database: Database,
    private readonly instance: InstanceService,
  ) {}

  of(goodsId: number): Promise<readonly Order[]> {
    const sql = `SELECT ${COLUMNS} FROM orders WHERE goods_id = $1 ORDER BY id`;
    return this.database.query<Order>(sql, [goodsId]);
  }

  async has(goodsId: number, userId: string): Promise<boolean> {
    const sql = 'SELECT id FROM orders WHERE goods_id = $1 AND user_id = $2';
    return (await this.database.query(sql, [goodsId, userId])).length > 0;
  }

  /**
   * Takes one of each item and writes the orders: all of them or none.
   *
   * @throws StaleFence when an item has seen a larger token, AlreadyBought
   */
  async place(lines: readonly OrderLine[], userId: string): Promise<readonly Order[]> {
    const columns = [
      lines.map(({ goods }) => goods.id),
      lines.map(({ goods }) => goods.stock - 1),
      lines.map(({ fence }) => fence),
      lines.map(({ goods }) => goods.readAt.toISOString()),
    ];
    try {
      return await this.database.query<Order>(PLACE, [...columns, userId, this.instance.id]);
    } catch (error) {
      const [first] = lines as [OrderLine];
      if (isUniqueViolation(error))
        throw new AlreadyBought(lines.map(({ goods }) => goods.name).join(' or '));
      throw isNotNullViolation(error) ? new StaleFence(first.goods.id, first.fence) : error;
    }
  }
}
