import { ConflictException } from '@nestjs/common';
import type { Pool } from 'pg';

export async function transfer(pool: Pool, from: number, to: number, amount: number): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    // In one order everywhere: two transfers in opposite directions would deadlock.
    const lock = 'SELECT id, balance FROM accounts WHERE id = ANY($1) ORDER BY id FOR UPDATE';
    const { rows } = await client.query<{ id: number; balance: number }>(lock, [[from, to]]);
    const balance = rows.find(({ id }) => id === from)?.balance ?? 0;
    if (rows.length < 2 || balance < amount) throw new ConflictException('not covered');
    await client.query('UPDATE accounts SET balance = balance - $2 WHERE id = $1', [from, amount]);
    await client.query('UPDATE accounts SET balance = balance + $2 WHERE id = $1', [to, amount]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}
