import {
  checkShape,
  type Columns,
  lockTableSql,
  notMadeError,
  quoted,
  type TableShape,
} from '../sql/lock-table.js';
import { sqlStateOf } from './failures.js';

type Run = (sql: string) => Promise<unknown>;

/** The SQLSTATEs of a CREATE TABLE that meets a table which another process has created at the same moment. */
const EXISTS = ['23505', '42P07', '42710'];

/** @throws LockConfigurationError if the store's database user may not create the table. The message contains the statement */
export async function createTable(run: Run, table: string): Promise<void> {
  const sql = lockTableSql('postgres', table);
  try {
    await run(sql);
  } catch (cause) {
    const state = sqlStateOf(cause) ?? '';
    if (EXISTS.includes(state)) return;
    if (!['42501', '3F000', '25006'].includes(state)) throw cause;
    throw notMadeError({ store: 'postgresStore', table, sql }, ` (${state}).`, cause);
  }
}

/**
 * Names must be compared byte by byte. Another collation may treat two names as equal. It may also change with an update of the
 * operating system, and the index then no longer finds its rows.
 */
const NAME = { type: 'text COLLATE C', matches: /^text COLLATE (C|POSIX)$/ };
const NUMBER = { type: 'bigint', matches: /^bigint$/ };
const TEXT = { type: 'text', matches: /^text( COLLATE .*)?$/ };
const COLUMNS: Columns = {
  name: NAME,
  version: NUMBER,
  state: TEXT,
  last: NUMBER,
  at: NUMBER,
  clients: TEXT,
  notes: TEXT,
};

const COLLATION = (oid: string) => `(SELECT ' COLLATE ' || collname FROM pg_collation WHERE oid = ${oid})`;
const SHAPE = `
SELECT json_build_object(
  'faults', array_remove(ARRAY[
    CASE relkind WHEN 'r' THEN NULL WHEN 'v' THEN 'it is a view' WHEN 'p' THEN 'it is partitioned' ELSE 'it is no table' END,
    CASE relpersistence WHEN 'u' THEN 'it is unlogged: a crash empties it' WHEN 't' THEN 'it is temporary' END,
    CASE WHEN EXISTS (SELECT FROM pg_inherits WHERE c.oid IN (inhparent, inhrelid)) THEN 'it inherits, or others inherit it' END,
    CASE WHEN row_security_active(c.oid) THEN 'a policy of row level security hides rows from this user' END
  ], NULL),
  'columns', ARRAY(
    SELECT json_build_object('name', attname,
      'type', format_type(atttypid, atttypmod) || coalesce(${COLLATION('attcollation')}, '') ||
        CASE WHEN attgenerated <> '' OR attidentity = 'a' THEN ' GENERATED' ELSE '' END,
      'isNullable', NOT attnotnull, 'mustBeGiven', attnotnull AND NOT atthasdef AND attidentity = '')
    FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum
  ),
  'uniqueKeys', ARRAY(
    SELECT json_build_object('name', k.relname,
      'columns', ARRAY(
        SELECT attname FROM unnest(indkey::int2[]) WITH ORDINALITY AS part (num, i)
          LEFT JOIN pg_attribute ON attrelid = c.oid AND attnum = num AND num > 0
        WHERE i <= indnkeyatts ORDER BY i),
      'isComplete', indisvalid AND indimmediate AND indpred IS NULL
        AND ${COLLATION('indcollation[0]')} IN (' COLLATE C', ' COLLATE POSIX'))
    FROM pg_index JOIN pg_class AS k ON k.oid = indexrelid WHERE indrelid = c.oid AND indisunique
  )
)::text AS shape FROM pg_class AS c WHERE c.oid = to_regclass($1)`;

/** @throws LockConfigurationError if the table does not have the columns and keys of a lock table */
export async function checkPostgresTable(
  query: (sql: string, parameters: unknown[]) => Promise<readonly object[]>,
  table: string,
): Promise<void> {
  const [row] = (await query(SHAPE, [quoted(table, '"')])) as readonly { readonly shape: string }[];
  // The table was dropped a moment ago. Do not report that here: the first statement fails, and the next connection creates the
  // table.
  if (!row) return;
  const shape = JSON.parse(row.shape) as TableShape;
  checkShape(shape, COLUMNS, { store: 'postgresStore', table, sql: lockTableSql('postgres', table) });
}
