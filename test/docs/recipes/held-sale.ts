import { Injectable } from '@nestjs/common';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import { heldUntilCommit, type SqlQuery } from 'nestjs-distributed-lock/guard';
import pg from 'pg';

@Injectable()
export class HeldSale {
  constructor(
    private readonly locks: LockService,
    private readonly pool: pg.Pool,
  ) {}

  sellOne(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, async (lock) => {
      const client = await this.pool.connect();
      const query: SqlQuery = (sql, parameters) => client.query(sql, parameters);
      try {
        await client.query('BEGIN');
        const { rows } = await client.query('SELECT stock FROM goods WHERE id = $1', [id]);
        const [goods] = rows as { stock: number }[];
        if (!goods?.stock) throw new Error('sold out');
        await client.query('UPDATE goods SET stock = $2 WHERE id = $1', [id, goods.stock - 1]);
        await heldUntilCommit(query, lock); // the last statement
        await client.query('COMMIT');
        return goods.stock - 1;
      } catch (error) {
        await client.query('ROLLBACK');
        throw error;
      } finally {
        client.release();
      }
    });
  }
}
