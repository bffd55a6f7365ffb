// The least that a lock in a SQLite file costs: two prepared statements. It cannot wait.
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { bareLock } from '../bare-lock.mjs';

const SETTINGS = 'PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 5000;';
const SCHEMA = `CREATE TABLE floor (name TEXT PRIMARY KEY, owner TEXT NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID`;
const TAKE = `INSERT INTO floor VALUES (?1, ?2, ?3 + 30000)
  ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until WHERE until < ?3`;
const DELETE_OWN = 'DELETE FROM floor WHERE name = ? AND owner = ?';

/** @type {import('../contestant.d.mts').OpenContestant} */
export async function open(url) {
  const database = new DatabaseSync(fileURLToPath(url));
  database.exec(SETTINGS);
  database.exec(SCHEMA);
  const [take, deleteOwn] = [database.prepare(TAKE), database.prepare(DELETE_OWN)];
  return bareLock([database], {
    take: async (_, values) => Number(take.run(...values, Date.now()).changes) === 1,
    giveBack: async (_, values) => deleteOwn.run(...values),
  });
}
