// A lock whose every step is one call of a PL/pgSQL function: one round trip also under contention. Its hand-off is the
// shortest that a queue in a table has. It shows the price of keeping the state machine out of the server.
import pg from 'pg';

/** Only one process at a time may create them. */
const SCHEMA = `
SELECT pg_advisory_xact_lock(1);
CREATE TABLE IF NOT EXISTS queued
  (name text COLLATE "C" PRIMARY KEY, owner text, until timestamptz, queue text[] NOT NULL DEFAULT '{}');
CREATE OR REPLACE FUNCTION acquire(key text, me text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE holder text;
BEGIN
  INSERT INTO queued AS held VALUES (key, me, clock_timestamp() + interval '30 s')
    ON CONFLICT (name) DO UPDATE SET
      owner = CASE WHEN held.owner IS NULL OR held.until < clock_timestamp() THEN me ELSE held.owner END,
      until = CASE WHEN held.owner IS NULL OR held.until < clock_timestamp() THEN excluded.until ELSE held.until END,
      queue = CASE WHEN held.owner IS NULL OR held.until < clock_timestamp() THEN held.queue ELSE held.queue || me END
    RETURNING held.owner INTO holder;
  RETURN holder = me;
END $$;
CREATE OR REPLACE FUNCTION release(key text, me text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE next text;
BEGIN
  UPDATE queued SET owner = queue[1], until = clock_timestamp() + interval '30 s', queue = queue[2:]
    WHERE name = key AND owner = me RETURNING owner INTO next;
  IF next IS NULL THEN
    SET LOCAL synchronous_commit = off;
  ELSE
    PERFORM pg_notify('granted', next);
  END IF;
END $$;`;

/** @type {import('../contestant.d.mts').OpenContestant} */
export async function open(url) {
  const [statements, notifications] = [new pg.Client(url), new pg.Client(url)];
  await Promise.all([statements.connect(), notifications.connect()]);
  await statements.query(SCHEMA);
  /** @type {Map<string, () => void>} by owner */
  const waiting = new Map();
  notifications.on('notification', ({ payload }) => waiting.get(payload)?.());
  await notifications.query('LISTEN granted');
  let calls = 0;
  const call = async (name, values) => {
    const { rows } = await statements.query({ name, text: `SELECT ${name}($1, $2) AS result`, values });
    return rows[0].result;
  };
  return {
    async run(key, work) {
      const owner = `${process.pid}:${++calls}`;
      // The notification may arrive before the reply.
      const granted = new Promise((resolve) => waiting.set(owner, resolve));
      if (!(await call('acquire', [key, owner]))) await granted;
      waiting.delete(owner);
      try {
        return await work();
      } finally {
        await call('release', [key, owner]);
      }
    },
  };
}
