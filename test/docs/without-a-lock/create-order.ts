import type { Pool } from 'pg';

/** The second of two requests with one id gets the order that the first has made. */
export async function createOrder(pool: Pool, requestId: string, item: string): Promise<number> {
  const insert = 'INSERT INTO orders (request_id, item) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id';
  const made = await pool.query<{ id: number }>(insert, [requestId, item]);
  const found =
    made.rows[0] ??
    (await pool.query<{ id: number }>('SELECT id FROM orders WHERE request_id = $1', [requestId])).rows[0];
  if (!found) throw new Error(`Order ${requestId} was deleted in between.`);
  return found.id;
}
