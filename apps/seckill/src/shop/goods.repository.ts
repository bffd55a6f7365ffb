import { Injectable } from '@nestjs/common';
import { Database, type Row } from '../database.js';
import { GoodsNotFoundError, StaleTokenError } from './errors.js';

export interface Goods extends Row {
  readonly id: number;
  readonly name: string;
  readonly stock: number;
  /** The number of pieces that were ever on sale. More orders than this is overselling. */
  readonly offered: number;
  /** The largest fencing token under which it was read or written. */
  readonly fence: number;
  /** When this was read, on the clock of the database. */
  readonly readAt: Date;
}

const COLUMNS = 'goods.*, clock_timestamp() AS "readAt"';

const RESET = `
  WITH item AS (UPDATE goods SET fence = $2, stock = offered WHERE id = $1 AND fence <= $2 RETURNING id)
  DELETE FROM orders USING item WHERE goods_id = item.id`;

@Injectable()
export class GoodsRepository {
  constructor(private readonly database: Database) {}

  all(): Promise<readonly Goods[]> {
    return this.database.query<Goods>(`SELECT ${COLUMNS} FROM goods ORDER BY id`);
  }

  async add(name: string, stock: number): Promise<Goods> {
    const sql = `INSERT INTO goods (name, stock, offered) VALUES ($1, $2, $2) RETURNING ${COLUMNS}`;
    const [goods] = await this.database.query<Goods>(sql, [name, stock]);
    return goods!;
  }

  /** @throws GoodsNotFoundError */
  async find(id: number): Promise<Goods> {
    const [goods] = await this.database.query<Goods>(`SELECT ${COLUMNS} FROM goods WHERE id = $1`, [id]);
    if (!goods) throw new GoodsNotFoundError(id);
    return goods;
  }

  /**
   * Reads an item for a holder of its lock. From now on the database refuses all earlier holders.
   *
   * To check the token only at the write would leave a gap: an earlier holder that wakes up late could still write
   * between this read and our write.
   *
   * @throws GoodsNotFoundError, StaleTokenError when another has read or written under a larger token
   */
  findUnder(fence: number, id: number): Promise<Goods> {
    return this.update('fence = $2', [id, fence]);
  }

  /** Adds pieces to a stock that was read under the same token. @throws StaleTokenError */
  addStock({ id, stock, offered }: Goods, amount: number, fence: number): Promise<Goods> {
    return this.update('fence = $2, stock = $3, offered = $4', [id, fence, stock + amount, offered + amount]);
  }

  /** Puts back what was sold, and deletes its orders. Does nothing if the token is stale. */
  async reset(id: number, fence: number): Promise<void> {
    await this.database.query(RESET, [id, fence]);
  }

  /** Changes an item that has seen no larger token. If no row matches, the token is stale or there is no such item. */
  private async update(set: string, values: [id: number, fence: number, ...unknown[]]): Promise<Goods> {
    const sql = `UPDATE goods SET ${set} WHERE id = $1 AND fence <= $2 RETURNING ${COLUMNS}`;
    const [goods] = await this.database.query<Goods>(sql, values);
    if (goods) return goods;
    const [id, fence] = values;
    await this.find(id);
    throw new StaleTokenError(id, fence);
  }
}
