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

  /** What the page shows, and its crowd buys. */
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
   * Reads an item for a holder of the lock, and from now on refuses all that held it before.
   *
   * To check the token at the write alone would leave a gap: an earlier holder that wakes up late could still write
   * between this read and our write.
   *
   * @throws GoodsNotFound, StaleFence when another has read or written under a larger token
   */
  async findUnder(fence: number, id: number): Promise<Goods> {
    const sql = `UPDATE goods SET fence = $2 WHERE id = $1 AND fence <= $2 RETURNING ${COLUMNS}`;
    const [goods] = await this.database.query<Goods>(sql, [id, fence]);
    return goods ?? this.refuse(id, fence);
  }

  /**
   * The same for several items, in the order of their ids.
   *
   * @param fences the token of each item by its id
   * @throws GoodsNotFound, StaleFence
   */
  async findAllUnder(fences: ReadonlyMap<number, number>): Promise<readonly Goods[]> {
    const sql = `
      UPDATE goods SET fence = held.fence
      FROM unnest($1::integer[], $2::bigint[]) AS held (id, fence)
      WHERE goods.id = held.id AND goods.fence <= held.fence RETURNING ${COLUMNS}`;
    const found = await this.database.query<Goods>(sql, [[...fences.keys()], [...fences.values()]]);
    for (const [id, fence] of fences) {
      if (!found.some((goods) => goods.id === id)) await this.refuse(id, fence);
    }
    return found.toSorted((a, b) => a.id - b.id);
  }

  /** Restocking: what is added was never on offer before. @throws StaleFence */
  async saveStock(id: number, stock: number, fence: number): Promise<Goods> {
    const sql = `
      UPDATE goods SET stock = $2, offered = offered + $2 - stock, fence = $3
      WHERE id = $1 AND fence <= $3 RETURNING ${COLUMNS}`;
    const [goods] = await this.database.query<Goods>(sql, [id, stock, fence]);
    if (!goods) throw new StaleFence(id, fence);
    return goods;
  }

  private async refuse(id: number, fence: number): Promise<never> {
    await this.find(id);
    throw new StaleFence(id, fence);
  }
}
