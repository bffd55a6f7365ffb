import type { Pool } from 'pg';

/** Takes the oldest job that no other worker has, and deletes it with the commit. */
export async function doNextJob(pool: Pool, work: (payload: string) => Promise<void>): Promise<boolean> {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const take =
      'DELETE FROM jobs WHERE id = (SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING payload';
    const { rows } = await client.query<{ payload: string }>(take);
    const [job] = rows;
    if (job) await work(job.payload);
    await client.query('COMMIT');
    return job !== undefined;
  } catch (error) {
    await client.query('ROLLBACK'); // the job is there again
    throw error;
  } finally {
    client.release();
  }
}
