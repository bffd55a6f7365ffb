/** Each statement takes its steps as one JSON text, so that one statement serves one key and many, on every client. */

/** The time when the server got the statement, in microseconds. Not the time of its execution, which may wait for a row. */
const MICROS = `(extract(epoch FROM statement_timestamp()) * 1e6)::bigint`;
/** Whether a step is executed in time, also when it has waited for its row. Otherwise an error rolls all back: 22012. */
const inTime = (until: string) =>
  `1 / CASE WHEN (extract(epoch FROM clock_timestamp()) * 1e6)::bigint <= ${until} THEN 1 ELSE 0 END`;

const ROW = 'version, state, last, at, notes';
const rowOf = (alias: string) => ROW.replaceAll(/\w+/g, (column) => `${alias}.${column}`);

/** Tells these clients of a row that was written: the row itself, or only its name if it is too long for a notification. */
const notify = (row: string, clients: string, condition: string) => `(
      SELECT count(pg_notify('nest_lock_' || client, payload))
      FROM unnest(string_to_array(${clients}, ',')) AS client, LATERAL (
        SELECT CASE WHEN octet_length(whole) < 8000 THEN whole ELSE json_build_array(${row}.name)::text END AS payload
        FROM (SELECT json_build_array(${row}.name, ${rowOf(row)}, x.now)::text AS whole OFFSET 0) AS j
      ) AS p
      WHERE ${condition}
    )`;

const isFree = (row: string) => `${row}.state IS NULL AND ${row}.notes = ''`;

/**
 * A take inserts the row, or writes over a free one. Beside a row that is not free it leaves the notes, if there are any,
 * and otherwise writes nothing: a row that is held at the start is not even locked.
 *
 * @param isAll all or none
 */
function take(table: string, isAll: boolean): string {
  const isHeld = `SELECT FROM ${table} AS h WHERE h.name = g.name AND NOT (${isFree('h')})`;
  const may = isAll
    ? `NOT EXISTS (SELECT FROM g WHERE EXISTS (${isHeld}))`
    : `(g.notes <> '' OR NOT EXISTS (${isHeld}))`;
  const done = isAll
    ? `CASE WHEN EXISTS (SELECT FROM t) THEN 1 / CASE WHEN (SELECT count(*) FROM t) = (SELECT count(*) FROM g) THEN 1 ELSE 0 END ELSE 0 END`
    : 'r.done';
  return `
WITH x AS (SELECT ${MICROS} AS now),
g AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::text::json) AS g (
    name text, state text, clients text, floor bigint, tokens bigint, notes text, until bigint, own text)
),
t AS (
  INSERT INTO ${table} AS l (name, ${ROW}, clients)
  SELECT g.name, x.now, g.state, greatest(x.now, g.floor) + g.tokens, x.now, '', g.clients
  FROM g, x
  WHERE x.now <= g.until AND ${may}
  ORDER BY g.name COLLATE "C"
  ON CONFLICT (name) DO UPDATE SET (${ROW}, clients) = (
    SELECT
      CASE WHEN is_free THEN greatest(l.version + 1, excluded.version) ELSE l.version END,
      CASE WHEN is_free THEN excluded.state ELSE l.state END,
      CASE WHEN is_free THEN greatest(l.last, excluded.at, g.floor) + g.tokens ELSE l.last END,
      CASE WHEN is_free THEN excluded.at ELSE l.at END,
      CASE WHEN is_free THEN '' ELSE l.notes || replace(g.notes, chr(10), excluded.at || '],') END,
      CASE WHEN is_free THEN excluded.clients ELSE l.clients END
    FROM g, (SELECT ${isFree('l')} AS is_free) AS f
    WHERE g.name = excluded.name)
  WHERE ${isFree('l')} OR EXISTS (SELECT FROM g WHERE g.name = excluded.name AND g.notes <> '')
  RETURNING l.name, ${rowOf('l')}, l.clients,
    (SELECT ${inTime('g.until')} FROM g WHERE g.name = l.name) AS in_time
)
SELECT g.name, ${done} AS done, ${rowOf('r')}, x.now, r.told
FROM x CROSS JOIN g LEFT JOIN LATERAL (
  SELECT CASE WHEN t.notes = '' THEN t.in_time ELSE 0 END AS done, ${rowOf('t')},
    ${notify('t', 't.clients', "t.notes <> '' AND client <> g.own")} AS told
  FROM t WHERE t.name = g.name
  UNION ALL
  SELECT 0, ${rowOf('h')}, 0 FROM ${table} AS h
  WHERE h.name = g.name AND NOT EXISTS (SELECT FROM t WHERE t.name = g.name)
) AS r ON true`;
}

/**
 * A swap writes a row that still has its version, and keeps the notes that it has not read.
 *
 * @param isMany locks the rows in order of their names first, so that two processes with the same names do not wait for
 * each other
 */
function swap(table: string, isMany: boolean): string {
  const locked = `k AS MATERIALIZED (
  SELECT l.name, ${rowOf('l')} FROM ${table} AS l WHERE l.name IN (SELECT name FROM g) ORDER BY l.name FOR UPDATE
),`;
  return `
WITH x AS (SELECT ${MICROS} AS now),
g AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::text::json) AS g (
    name text, version bigint, state text, last bigint, clients text, read int, exact int, told text, until bigint)
),
${isMany ? locked : ''}
t AS (
  UPDATE ${table} AS l SET version = greatest(l.version + 1, x.now), state = g.state, last = g.last, at = x.now,
    notes = substr(l.notes, g.read + 1), clients = g.clients
  FROM x, g ${isMany ? 'JOIN k ON k.name = g.name' : ''}
  WHERE l.name = g.name AND l.version = g.version AND x.now <= g.until
    AND (g.exact = 0 OR length(l.notes) = g.read)
  RETURNING l.name, ${rowOf('l')}, ${inTime('g.until')} AS in_time,
    CASE WHEN $2::int = 1 THEN set_config('synchronous_commit', 'off', true) END AS commit
)
SELECT g.name, r.done, ${rowOf('r')}, x.now, r.told
FROM x CROSS JOIN g LEFT JOIN LATERAL (
  SELECT t.in_time AS done, ${rowOf('t')}, ${notify('t', 'g.told', 'true')} AS told
  FROM t WHERE t.name = g.name
  UNION ALL
  SELECT 0, ${rowOf('h')}, 0 FROM ${isMany ? 'k' : table} AS h
  WHERE h.name = g.name AND NOT EXISTS (SELECT FROM t WHERE t.name = g.name)
) AS r ON true`;
}

function read(table: string): string {
  return `
SELECT g.name, 0 AS done, ${rowOf('h')}, ${MICROS} AS now
FROM json_array_elements_text($1::text::json) AS g (name) LEFT JOIN ${table} AS h ON h.name = g.name`;
}

/** Deletes rows that were free for ten minutes, and selects names of documents that nobody has written for an hour. */
function sweep(table: string): string {
  return `
WITH old AS (
  SELECT name FROM ${table} AS l WHERE ${isFree('l')} AND at < ${MICROS} - 600e6 LIMIT 1000 FOR UPDATE SKIP LOCKED
),
gone AS (DELETE FROM ${table} AS l USING old WHERE l.name = old.name)
SELECT name FROM ${table} WHERE state IS NOT NULL AND at < ${MICROS} - 3600e6 AND name > $1::text
ORDER BY name LIMIT 100`;
}

/** A statement, and the name under which a connection prepares it. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

export type Statements = ReturnType<typeof statementsFor>;

/** @param table quoted */
export function statementsFor(table: string) {
  const texts = {
    take: take(table, false),
    takeAll: take(table, true),
    swap: swap(table, false),
    swapMany: swap(table, true),
    read: read(table),
    sweep: sweep(table),
    ping: 'SELECT 1',
    notify: `SELECT pg_notify($1, '')`,
  };
  const named = (name: keyof typeof texts): Statement => ({ name: `nest_lock_${name}`, text: texts[name] });
  return {
    take: named('take'),
    takeAll: named('takeAll'),
    swap: named('swap'),
    swapMany: named('swapMany'),
    read: named('read'),
    sweep: named('sweep'),
    ping: named('ping'),
    notify: named('notify'),
  };
}
