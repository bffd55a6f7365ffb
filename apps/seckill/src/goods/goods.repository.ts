import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.js';
import { GoodsNotFound, StaleFence } from './goods.errors.js';
import type { Goods } from './goods.js';

const COLUMNS = 'goods.*, clock_timestamp() AS "readAt"';

/** The page has no room for more. */
export const SHOWN = 6;

@Injectable()
export class GoodsRepository {
  constructor(private readonly database: Database) {}

  all(): Promise<readonly Goods[]> {
    return this.database.query<Goods>(`SELECT ${COLUMNS} FROM goods ORDER BY id`);
  }

  /** The items that the page shows and its crowd buys. */
  shown(): Promise<readonly Goods[]> {
    return this.database.query<Goods>(`SELECT ${COLUMNS} FROM goods ORDER BY id LIMIT ${SHOWN}`);
  }

  async add(name: string, stock: number): Promise<Goods> {
    const sql = `INSERT INTO goods (name, stock, offered) VALUES ($1, $2, $2) RETURNING ${COLUMNS}`;
    const [goods] = await this.database.query<Goods>(sql, [name, stock]);
    return goods!;
  }

  /** @throws GoodsNotFound */
  async find(id: number): Promise<Goods> {
    const [goods] = await this.database.query<Goods>(`SELECT ${COLUMNS} FROM goods WHERE id = $1`, [id]);
    if (!goods) throw new GoodsNotFound(id);
    return goods;
  }

  /**
   * Reads an item for a holder of the lock, and from now on refuses all earlier holders.
   *
   * To check the token at the write alone would leave a gap: an earlier holder that wakes up late could still write
   * between this read and our write.
   *
   * The fence guards the goods on every store. A shop whose locks are always in the database of its goods can end each
   * transaction with `heldUntilCommit` instead, and needs no column `fence`.
   *
   * @throws GoodsNotFound, StaleFence when another has read or written under a larger token
   */
  async findUnder(fence: number, id: number): Promise<Goods> {
    return this.update('fence = $2', [id, fence]);
  }

  /**
   * The same for several items, in the order of their ids.
   *
   * @param fences the token of each item by its id
   * @throws GoodsNotFound, StaleFence
   */
  async findAllUnder(fences: ReadonlyMap<number, number>): Promise<readonly Goods[]> {
    const found: Goods[] = [];
    for (const [id, fence] of [...fences].toSorted(([a], [b]) => a - b)) {
      found.push(await this.findUnder(fence, id));
    }
    return found;
  }

  /** Adds new items to the stock that was read under the same token. @throws StaleFence */
  async saveStock({ id, stock, offered }: Goods, amount: number, fence: number): Promise<Goods> {
    const set = 'stock = $3, offered = $4, fence = $2';
    return this.update(set, [id, fence, stock + amount, offered + amount]);
  }

  /** Updates an item that has seen no larger token. No row is either a stale token or no such item. */
  private async update(set: string, values: [id: number, fence: number, ...unknown[]]): Promise<Goods> {
    const sql = `UPDATE goods SET ${set} WHERE id = $1 AND fence <= $2 RETURNING ${COLUMNS}`;
    const [goods] = await this.database.query<Goods>(sql, values);
    if (goods) return goods;
    const [id, fence] = values;
    await this.find(id);
    throw new StaleFence(id, fence);
  }
}
