import { Injectable } from '@nestjs/common';
import { Database, type Row } from '../database/database.js';
import { SHOWN } from '../goods/goods.repository.js';
import type { Section, StockedGoods } from './live-view.js';

const GOODS = `
  SELECT id, name, stock, offered,
    (SELECT count(*)::integer FROM orders WHERE goods_id = goods.id) AS orders,
    clock_timestamp() AS at
  FROM goods ORDER BY id LIMIT ${SHOWN}`;

const MOST_SECTIONS = 2000;

/** now() and not clock_timestamp(), which would keep the index out. */
const SECTIONS = `
  SELECT * FROM (
    SELECT id, goods_id AS "goodsId", instance, fence, read_at, placed_at FROM orders
    WHERE placed_at > now() - $1 * interval '1 ms' ORDER BY placed_at DESC LIMIT ${MOST_SECTIONS}
  ) AS latest ORDER BY placed_at`;

type OrderTimes = Row & Omit<Section, 'from' | 'to'> & { readonly read_at: Date; readonly placed_at: Date };

/** Reads the content of the page. */
@Injectable()
export class LiveRepository {
  constructor(private readonly database: Database) {}

  async goods(): Promise<{ readonly at: number; readonly goods: readonly StockedGoods[] }> {
    const rows = await this.database.query<Row & StockedGoods & { readonly at: Date }>(GOODS);
    return {
      at: rows[0]?.at.getTime() ?? 0,
      goods: rows.map(({ id, name, stock, offered, orders }) => ({ id, name, stock, offered, orders })),
    };
  }

  /** The sections that ended within the last `sinceMs`. */
  async sections(sinceMs: number): Promise<readonly Section[]> {
    const rows = await this.database.query<OrderTimes>(SECTIONS, [sinceMs]);
    return rows.map(({ id, goodsId, instance, fence, read_at, placed_at }) => {
      return { id, goodsId, instance, fence, from: read_at.getTime(), to: placed_at.getTime() };
    });
  }
}
