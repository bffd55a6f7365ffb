import { ConflictException } from '@nestjs/common';
import type { Pool } from 'pg';

/** `version` is the one that the user saw when they began to write. */
export async function savePage(pool: Pool, id: number, text: string, version: number): Promise<void> {
  const update = 'UPDATE pages SET text = $2, version = version + 1 WHERE id = $1 AND version = $3';
  const { rowCount } = await pool.query(update, [id, text, version]);
  if (rowCount === 0) throw new ConflictException('somebody else has changed the page');
}
