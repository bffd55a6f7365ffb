// `pg_advisory_lock` by hand. A caller keeps a connection of its own while it waits and while it works.
import pg from 'pg';

/** @type {import('./system.d.mts').System} */
export const system = {
  server: 'postgres',
  leaseMs: 3000,
  hasKeys: true,
  hasLimits: false,
  async open(url) {
    const pool = new pg.Pool({ connectionString: url, max: 40 });
    pool.on('error', () => {});
    pool.on('connect', (session) => session.on('error', () => {}));
    return {
      async run(key, work, { onLost } = {}) {
        const session = await pool.connect();
        const lost = () => onLost?.();
        session.once('error', lost);
        let broken;
        try {
          await session.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [key]);
          try {
            return await work({});
          } finally {
            await session.query('SELECT pg_advisory_unlock(hashtextextended($1, 0))', [key]);
          }
        } catch (error) {
          broken = error;
          throw error;
        } finally {
          session.off('error', lost);
          // After an error the connection is closed, so that it leaves no lock behind.
          session.release(broken);
        }
      },
      takeAway: () =>
        pool.query("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"),
    };
  },
};
