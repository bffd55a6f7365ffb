import { Controller, ConflictException, NotFoundException, Param, ParseIntPipe, Post } from '@nestjs/common';
import { CurrentLock, Locked, type Lock } from 'nestjs-distributed-lock';
import { StaleTokenError, type Fence } from 'nestjs-distributed-lock/guard';

export interface Goods {
  readonly stock: number;
  readonly fence: string;
}

export abstract class Database {
  abstract query(sql: string, values: unknown[]): Promise<Goods[]>;
}

export const READ = 'UPDATE goods SET fence = $2 WHERE id = $1 AND fence <= $2 RETURNING *';
export const WRITE = 'UPDATE goods SET stock = $3, fence = $2 WHERE id = $1 AND fence <= $2 RETURNING *';

@Controller('goods')
export class GoodsController {
  constructor(private readonly database: Database) {}

  @Post(':id/purchase')
  @Locked('goods:<id>')
  async purchase(@Param('id', ParseIntPipe) id: number, @CurrentLock() lock: Lock): Promise<number> {
    const { stock } = await fenced(this.database, READ, lock, id); // from now on all earlier holders are refused
    if (stock === 0) throw new ConflictException('sold out');
    const written = await fenced(this.database, WRITE, lock, id, stock - 1);
    return written.stock;
  }
}

export async function fenced(
  database: Database,
  sql: string,
  { key, fencingToken }: Fence,
  id: number,
  ...values: unknown[]
): Promise<Goods> {
  const [written] = await database.query(sql, [id, fencingToken, ...values]);
  if (written) return written;
  // No row was changed: there is none, or it has seen a larger token.
  const [goods] = await database.query('SELECT * FROM goods WHERE id = $1', [id]);
  if (!goods) throw new NotFoundException();
  throw new StaleTokenError(key, fencingToken, Number(goods.fence));
}
