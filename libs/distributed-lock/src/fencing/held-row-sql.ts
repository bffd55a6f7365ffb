import { quoted } from '../stores/sql/lock-table.js';
import type { SqlDialect } from './sql-query.js';

/** A statement and its parameters, for a query function. */
export interface SqlStatement {
  readonly sql: string;
  readonly parameters: readonly unknown[];
}

const QUOTES = { postgres: '"', mysql: '`' } as const;

/** The row of a lock as `readingOf` of the SQL stores reads it, and whether the statement is inside of a transaction. */
const COLUMNS: Readonly<Record<SqlDialect, string>> = {
  postgres: `version, state, last, at, '' AS notes, CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint) AS now,
    CASE WHEN (SELECT pg_current_xact_id_if_assigned()) IS NULL THEN 0 ELSE 1 END AS inside`,
  // MariaDB executes the text between `/*M!` and `*/`. MySQL, which has no such variable, skips it as a comment.
  mysql: `version, state, last, at, '' AS notes, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now
    /*M! , @@in_transaction AS inside */`,
};

/** Reads the newest state of a lock's row, and locks the row against writers until the transaction ends. */
export function lockedRow(dialect: SqlDialect, table: string, name: string): SqlStatement {
  const select = `SELECT ${COLUMNS[dialect]} FROM ${quoted(table, QUOTES[dialect])} WHERE name =`;
  if (dialect === 'postgres') return { sql: `${select} $1 FOR SHARE`, parameters: [name] };
  // The column has the bytes of UTF-8, whatever the character set of the connection.
  return { sql: `${select} CONVERT(? USING utf8mb4) LOCK IN SHARE MODE`, parameters: [name] };
}

/**
 * Postgres gives a transaction an id when it first writes or locks a row, so that `inside` of the first statement is 0. If
 * the transaction goes on, it is 1 in the second one.
 */
export const INSIDE_POSTGRES: SqlStatement = {
  sql: 'SELECT CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN 0 ELSE 1 END AS inside',
  parameters: [],
};
