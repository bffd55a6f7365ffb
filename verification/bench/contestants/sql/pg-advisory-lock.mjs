// A session's lock of PostgreSQL, by hand: each caller keeps a connection of a pool while it waits and while it works.
import pg from 'pg';

/** @type {import('../contestant.d.mts').OpenContestant} */
export async function open(url) {
  const pool = new pg.Pool({ connectionString: url });
  await pool.query('SELECT 1');
  return {
    async run(key, work) {
      const session = await pool.connect();
      try {
        await session.query(call('pg_advisory_lock', key));
        try {
          return await work();
        } finally {
          await session.query(call('pg_advisory_unlock', key));
        }
      } finally {
        session.release();
      }
    },
  };
}

/** @param {string} name of the function @param {string} key */
const call = (name, key) => ({ name, text: `SELECT ${name}(hashtextextended($1, 0))`, values: [key] });
