import { Injectable } from '@nestjs/common';
import { Database, type Row } from '../database.js';
import { InstanceService } from '../live/instance.service.js';
import { AlreadyBoughtError, StaleTokenError } from './errors.js';
import type { Goods } from './goods.repository.js';

export interface Order extends Row {
  readonly id: number;
  readonly goodsId: number;
  readonly userId: string;
  /** The fencing token under which it was bought. */
  readonly fence: number;
}

const COLUMNS = 'id, goods_id AS "goodsId", user_id AS "userId", fence';

/**
 * One statement, so that stocks and orders change together or not at all. It does not update an item that has seen a
 * larger token. The order of that item then has no `goods_id`, which the table refuses, and with it the whole statement.
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

/** The codes of Postgres for a row that a constraint refuses. */
const NOT_NULL_VIOLATION = '23502';
const UNIQUE_VIOLATION = '23505';

@Injectable()
export class OrdersRepository {
  constructor(
    private readonly database: Database,
    private readonly instance: InstanceService,
  ) {}

  of(goodsId: number): Promise<readonly Order[]> {
    return this.database.query<Order>(`SELECT ${COLUMNS} FROM orders WHERE goods_id = $1 ORDER BY id`, [
      goodsId,
    ]);
  }

  async has(goodsId: number, userId: string): Promise<boolean> {
    const sql = 'SELECT id FROM orders WHERE goods_id = $1 AND user_id = $2';
    return (await this.database.query(sql, [goodsId, userId])).length > 0;
  }

  /**
   * Takes one piece of each item and writes the orders: all of them or none.
   *
   * @param cart the items as they were read, each with the fencing token under which it was read
   * @throws StaleTokenError when an item has seen a larger token, AlreadyBoughtError
   */
  async place(cart: readonly Goods[], userId: string): Promise<readonly Order[]> {
    const columns = [
      cart.map(({ id }) => id),
      cart.map(({ stock }) => stock - 1),
      cart.map(({ fence }) => fence),
      cart.map(({ readAt }) => readAt.toISOString()),
    ];
    try {
      return await this.database.query<Order>(PLACE, [...columns, userId, this.instance.id]);
    } catch (error) {
      const { code } = error as { code?: string };
      if (code === UNIQUE_VIOLATION) throw new AlreadyBoughtError(cart.map(({ name }) => name).join(' or '));
      if (code === NOT_NULL_VIOLATION) throw new StaleTokenError(cart[0]!.id, cart[0]!.fence);
      throw error;
    }
  }
}
