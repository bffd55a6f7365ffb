import { Injectable } from '@nestjs/common';
import { OnceService } from 'nestjs-distributed-lock/once';
import { Pool } from 'pg';

@Injectable()
export class Payments {
  constructor(
    private readonly once: OnceService,
    private readonly pool: Pool,
  ) {}

  /** `OnceModule.forRoot({ results: sqlResults((sql, parameters) => pool.query(sql, parameters)) })` in the same database. */
  pay(id: string, amount: number): Promise<{ readonly paid: number }> {
    return this.once.run(`payment:${id}`, { keepForMs: 86_400_000 }, async ({ rememberIn }) => {
      const client = await this.pool.connect();
      try {
        await client.query('BEGIN');
        await client.query('INSERT INTO payments (id, amount) VALUES ($1, $2)', [id, amount]);
        const result = { paid: amount };
        await rememberIn((sql, parameters) => client.query(sql, parameters), result);
        await client.query('COMMIT');
        return result;
      } catch (error) {
        await client.query('ROLLBACK');
        throw error;
      } finally {
        client.release();
      }
    });
  }
}
