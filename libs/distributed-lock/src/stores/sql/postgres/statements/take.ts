import { inTime, isFreeRow, notify, NOW, ROW, rowOf, rowText, settings } from './parts.js';

/**
 * A take inserts the row, or writes over a free one. Beside a row that is not free it leaves the notes, if there are any,
 * and tells the clients of the holders. Without notes it writes nothing: such a row is not even locked.
 *
 * Parameters: name, state, smallest token, number of tokens, client, not-after, notes, as `takeParameters` orders them.
 */
export function takeOne(table: string, lockTimeoutMs: number): string {
  const free = isFreeRow('l');
  const ifFree = (then: string, otherwise: string) => `CASE WHEN ${free} THEN ${then} ELSE ${otherwise} END`;
  return `
WITH t AS (
  INSERT INTO ${table} AS l (name, ${ROW}, clients)
  SELECT $1::text, ${NOW}, $2::text, greatest(${NOW}, $3::bigint) + $4::bigint, ${NOW}, '', $5::text
  WHERE ${settings(lockTimeoutMs)} AND ${NOW} <= $6::bigint
    AND ($7::text <> '' OR NOT EXISTS (SELECT FROM ${table} AS h WHERE h.name = $1::text AND NOT (${isFreeRow('h')})))
  ON CONFLICT (name) DO UPDATE SET
    version = ${ifFree('greatest(l.version + 1, excluded.version)', 'l.version')},
    state = ${ifFree('excluded.state', 'l.state')},
    last = ${ifFree('greatest(l.last + $4::bigint, excluded.last)', 'l.last')},
    at = ${ifFree('excluded.at', 'l.at')},
    notes = ${ifFree(`''`, `l.notes || replace($7::text, chr(10), excluded.at || '],')`)},
    clients = ${ifFree('excluded.clients', 'l.clients')}
  WHERE ${free} OR $7::text <> ''
  RETURNING l.name, ${rowOf('l')}, l.clients, ${inTime('$6::bigint')} AS in_time
)
SELECT CASE WHEN notes = '' THEN in_time ELSE 0 END AS done, ${rowText('t')} AS row,
  CASE WHEN notes <> '' THEN ${notify('t', 't.clients', 'client <> $5::text')} END AS notified
FROM t
UNION ALL
SELECT 0, ${rowText('h')}, 0 FROM ${table} AS h WHERE h.name = $1::text AND NOT EXISTS (SELECT FROM t)`;
}

/**
 * Several takes, as one JSON parameter. Rows that exist are locked in order of their names before anything is written, so
 * that two statements with the same names do not wait for each other.
 */
export function takeMany(table: string, lockTimeoutMs: number): string {
  const ifFree = (then: string, otherwise: string) =>
    `CASE WHEN k.is_free THEN ${then} ELSE ${otherwise} END`;
  return `
WITH g AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::text::json) AS g (
    name text, state text, floor bigint, tokens bigint, client text, until bigint, notes text)
  WHERE ${settings(lockTimeoutMs)}
),
k AS MATERIALIZED (
  SELECT l.name, ${isFreeRow('l')} AS is_free FROM g JOIN ${table} AS l ON l.name = g.name
  WHERE (${isFreeRow('l')} OR g.notes <> '') AND ${NOW} <= g.until
  ORDER BY l.name FOR UPDATE OF l
),
u AS (
  UPDATE ${table} AS l SET
    version = ${ifFree(`greatest(l.version + 1, ${NOW})`, 'l.version')},
    state = ${ifFree('g.state', 'l.state')},
    last = ${ifFree(`greatest(l.last, g.floor, ${NOW}) + g.tokens`, 'l.last')},
    at = ${ifFree(NOW, 'l.at')},
    notes = ${ifFree(`''`, `l.notes || replace(g.notes, chr(10), ${NOW} || '],')`)},
    clients = ${ifFree('g.client', 'l.clients')}
  FROM k JOIN g ON g.name = k.name WHERE l.name = k.name
  RETURNING l.name, ${rowOf('l')}, l.clients, g.client AS own, ${inTime('g.until')} AS in_time
),
i AS (
  INSERT INTO ${table} AS l (name, ${ROW}, clients)
  SELECT g.name, ${NOW}, g.state, greatest(g.floor, ${NOW}) + g.tokens, ${NOW}, '', g.client FROM g
  WHERE NOT EXISTS (SELECT FROM ${table} AS h WHERE h.name = g.name) AND ${NOW} <= g.until
  ORDER BY g.name COLLATE "C"
  ON CONFLICT (name) DO NOTHING
  RETURNING l.name, ${rowOf('l')}, l.clients, '' AS own, ${inTime('(SELECT min(g.until) FROM g)')} AS in_time
),
t AS (SELECT * FROM u UNION ALL SELECT * FROM i)
SELECT CASE WHEN notes = '' THEN in_time ELSE 0 END AS done, ${rowText('t')} AS row,
  CASE WHEN notes <> '' THEN ${notify('t', 't.clients', 'client <> t.own')} END AS notified
FROM t
UNION ALL
SELECT 0, ${rowText('h', 'g.name')}, 0 FROM g LEFT JOIN ${table} AS h ON h.name = g.name
WHERE g.name NOT IN (SELECT name FROM t)`;
}
