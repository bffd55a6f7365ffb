import { Controller, ConflictException, Param, ParseIntPipe, Post } from '@nestjs/common';
import { CurrentLock, Locked, type Lock } from 'nestjs-distributed-lock';

export abstract class Database {
  abstract query(sql: string, values: unknown[]): Promise<{ readonly stock: number }[]>;
}

@Controller('goods')
export class GoodsController {
  constructor(private readonly database: Database) {}

  @Post(':id/purchase')
  @Locked('goods:<id>')
  async purchase(@Param('id', ParseIntPipe) id: number, @CurrentLock() lock: Lock): Promise<number> {
    const { fencingToken: fence } = lock;
    const read = 'UPDATE goods SET fence = $2 WHERE id = $1 AND fence <= $2 RETURNING stock';
    const [goods] = await this.database.query(read, [id, fence]);
    if (!goods || goods.stock === 0) throw new ConflictException();
    const write = 'UPDATE goods SET stock = $3 WHERE id = $1 AND fence = $2 RETURNING stock';
    const [written] = await this.database.query(write, [id, fence, goods.stock - 1]);
    if (!written) throw new ConflictException('Somebody with a larger token was here');
    return written.stock;
  }
}
