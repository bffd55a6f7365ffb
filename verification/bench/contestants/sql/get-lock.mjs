// A session's lock of MySQL or MariaDB, by hand: each caller keeps a connection of a pool while it waits and while it works.
import { createPool } from 'mysql2/promise';

/** Longer than any run. MariaDB does not know -1. */
const WAIT_SECONDS = 3600;

/** @type {import('../contestant.d.mts').OpenContestant} */
export async function open(url) {
  const pool = createPool(url);
  await pool.query('SELECT 1');
  return {
    async run(key, work) {
      const session = await pool.getConnection();
      try {
        await session.execute('SELECT GET_LOCK(?, ?)', [key, WAIT_SECONDS]);
        try {
          return await work();
        } finally {
          await session.execute('SELECT RELEASE_LOCK(?)', [key]);
        }
      } finally {
        session.release();
      }
    },
  };
}
