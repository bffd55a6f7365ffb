import { ConflictException } from '@nestjs/common';
import type { Pool } from 'pg';

export async function sell(pool: Pool, goodsId: number, count: number): Promise<void> {
  const update = 'UPDATE goods SET stock = stock - $2 WHERE id = $1 AND stock >= $2';
  const { rowCount } = await pool.query(update, [goodsId, count]);
  if (rowCount === 0) throw new ConflictException('sold out');
}
