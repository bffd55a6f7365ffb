import { inTime, notify, NOW, rowOf, rowText, settings } from './parts.js';

/**
 * A swap writes a row that still has its version, and keeps the notes that were not read. It replies nothing where another
 * client was first.
 *
 * Parameters: name, version, state, last token, clients of the holders, length of the notes read, whether it is exact,
 * not-after, clients to tell, whether a crash of the server may undo it.
 */
export function swapOne(table: string, lockTimeoutMs: number): string {
  return `
UPDATE ${table} AS l SET version = greatest(l.version + 1, ${NOW}), state = $3::text, last = $4::bigint, at = ${NOW},
  notes = substr(l.notes, $6::int + 1), clients = $5::text
WHERE name = $1::text AND version = $2::bigint AND ${NOW} <= $8::bigint
  AND ($7::int = 0 OR length(l.notes) = $6::int) AND ${settings(lockTimeoutMs, '$10::int = 1')}
RETURNING ${inTime('$8::bigint')} AS done, ${rowText('l')} AS row,
  CASE WHEN $9::text <> '' THEN ${notify('l', '$9::text')} END AS notified`;
}

/**
 * Several swaps, as one JSON parameter, and whether a crash of the server may undo them all. The rows are locked in order of
 * their names first, so that two statements with the same names do not wait for each other.
 */
export function swapMany(table: string, lockTimeoutMs: number): string {
  return `
WITH g AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::text::json) AS g (
    name text, version bigint, state text, last bigint, clients text, read int, exact int, until bigint, notified text)
  WHERE ${settings(lockTimeoutMs, '$2::int = 1')}
),
k AS MATERIALIZED (
  SELECT l.name, ${rowOf('l')} FROM ${table} AS l WHERE l.name IN (SELECT name FROM g) ORDER BY l.name FOR UPDATE
),
t AS (
  UPDATE ${table} AS l SET version = greatest(l.version + 1, ${NOW}), state = g.state, last = g.last, at = ${NOW},
    notes = substr(l.notes, g.read + 1), clients = g.clients
  FROM k JOIN g ON g.name = k.name
  WHERE l.name = k.name AND k.version = g.version AND ${NOW} <= g.until AND (g.exact = 0 OR length(k.notes) = g.read)
  RETURNING l.name, ${rowOf('l')}, g.notified, ${inTime('g.until')} AS in_time
)
SELECT in_time AS done, ${rowText('t')} AS row, CASE WHEN notified <> '' THEN ${notify('t', 't.notified')} END AS notified
FROM t
UNION ALL
SELECT 0, ${rowText('k', 'g.name')}, 0 FROM g LEFT JOIN k ON k.name = g.name
WHERE g.name NOT IN (SELECT name FROM t)`;
}
