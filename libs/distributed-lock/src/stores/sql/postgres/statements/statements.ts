import { FREE_FOR_MS, UNWRITTEN_FOR_MS } from '../../slice.js';
import { isFreeRow, NOW, rowText, settings } from './parts.js';
import { swapMany, swapOne } from './swap.js';
import { takeMany, takeOne } from './take.js';

/** A statement, and the name under which a connection prepares it. */
export interface PostgresStatement {
  readonly name: string;
  readonly text: string;
}

export type PostgresStatements = ReturnType<typeof statementsFor>;

/** @param table quoted @param lockTimeoutMs how long a statement waits for a row that another transaction keeps locked */
export function statementsFor(table: string, lockTimeoutMs: number) {
  const named = (name: string, text: string): PostgresStatement => ({ name: `nest_lock_${name}`, text });
  return {
    takeOne: named('take_one', takeOne(table, lockTimeoutMs)),
    takeMany: named('take_many', takeMany(table, lockTimeoutMs)),
    swapOne: named('swap_one', swapOne(table, lockTimeoutMs)),
    swapMany: named('swap_many', swapMany(table, lockTimeoutMs)),
    read: named('read', read(table)),
    scan: named('scan', scan(table)),
    deleteFree: named('delete_free', deleteFree(table, lockTimeoutMs)),
    ping: named('ping', 'SELECT 1'),
    notify: named('notify', `SELECT pg_notify($1, '')`),
  };
}

/** Rows by names in one JSON parameter. */
function read(table: string): string {
  return `
SELECT 0 AS done, ${rowText('h', 'g.name')} AS row
FROM json_array_elements_text($1::text::json) AS g (name) LEFT JOIN ${table} AS h ON h.name = g.name`;
}

const isOld = (row: string, ms: number) => `${row}.at < ${NOW} - ${ms * 1000}`;
const isOldAndFree = `${isFreeRow('l')} AND ${isOld('l', FREE_FOR_MS)}`;

/** Parameters: the name after which to begin, and the number of rows. */
function scan(table: string): string {
  return `
SELECT l.name, (NOT (${isFreeRow('l')}))::int AS held, (${isOldAndFree})::int AS free,
  (l.state IS NOT NULL AND ${isOld('l', UNWRITTEN_FOR_MS)})::int AS unwritten
FROM ${table} AS l WHERE l.name > $1::text ORDER BY l.name LIMIT $2::int`;
}

/** Parameter: the names as JSON. */
function deleteFree(table: string, lockTimeoutMs: number): string {
  return `
WITH old AS (
  SELECT l.name FROM ${table} AS l
  WHERE l.name IN (SELECT json_array_elements_text($1::text::json)) AND ${isOldAndFree} AND ${settings(lockTimeoutMs, 'true')}
  FOR UPDATE SKIP LOCKED
)
DELETE FROM ${table} AS l USING old WHERE l.name = old.name`;
}
