import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.js';
import { GoodsNotFound, StaleFence } from './goods.errors.js';
import type { Goods } from './goods.js';

@Injectable()
export class GoodsRepository {
  constructor(private readonly database: Database) {}

  all(): Promise<readonly Goods[]> {
    return this.database.query<Goods>('SELECT * FROM goods ORDER BY id');
  }

  async add(name: string, stock: number): Promise<Goods> {
    const sql = 'INSERT INTO goods (name, stock) VALUES ($1, $2) RETURNING *';
    const [goods] = await this.database.query<Goods>(sql, [name, stock]);
    return goods!;
  }

  /** @throws GoodsNotFound */
  async find(id: number): Promise<Goods> {
    const [goods] = await this.database.query<Goods>('SELECT * FROM goods WHERE id = $1', [id]);
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
    const sql = 'UPDATE goods SET fence = $2 WHERE id = $1 AND fence <= $2 RETURNING *';
    const [goods] = await this.database.query<Goods>(sql, [id, fence]);
    if (goods) return goods;
    await this.find(id);
    throw new StaleFence(id, fence);
  }

  /** @throws StaleFence */
  async saveStock(id: number, stock: number, fence: number): Promise<Goods> {
    const sql = 'UPDATE goods SET stock = $2, fence = $3 WHERE id = $1 AND fence <= $3 RETURNING *';
    const [goods] = await this.database.query<Goods>(sql, [id, stock, fence]);
    if (!goods) throw new StaleFence(id, fence);
    return goods;
  }
}
