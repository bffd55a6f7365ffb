import { LockConfigurationError } from '../../port/lock.errors.js';
import { checkTableName, DEFAULT_TABLE } from './sql-options.js';

const STATEMENTS = {
  postgres: (table: string) => `CREATE TABLE IF NOT EXISTS ${quoted(table, '"')} (
  name text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL,
  state text,
  last bigint NOT NULL,
  at bigint NOT NULL,
  clients text NOT NULL DEFAULT '',
  notes text NOT NULL DEFAULT ''
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05)`,
  mysql: (table: string) => `CREATE TABLE IF NOT EXISTS ${quoted(table, '`')} (
  name VARBINARY(2048) NOT NULL PRIMARY KEY,
  writer BIGINT NOT NULL,
  version BIGINT NOT NULL,
  state MEDIUMTEXT CHARACTER SET ascii,
  last BIGINT NOT NULL,
  at BIGINT NOT NULL,
  notes MEDIUMTEXT CHARACTER SET ascii NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`,
} as const;

/**
 * The statement that makes the table of the locks, for migrations. A store makes the table itself on first use, if its
 * user may.
 *
 * @param table as in the options of the store; default `nest_lock`
 * @throws LockConfigurationError for another dialect, and for a name that no table can have
 */
export function lockTableSql(dialect: 'postgres' | 'mysql', table = DEFAULT_TABLE): string {
  const statement = Object.hasOwn(STATEMENTS, dialect) && STATEMENTS[dialect];
  if (!statement) {
    throw new LockConfigurationError(`dialect must be 'postgres' or 'mysql'; it is ${String(dialect)}.`);
  }
  checkTableName(table);
  return statement(table);
}

export interface NamedTable {
  /** The function of the store, as `mysqlStore`. */
  readonly store: string;
  readonly table: string;
  readonly sql: string;
}

/**
 * The error for a table of the right name that is not the one of `lockTableSql`. Exclusion needs its unique key on `name`, and
 * columns that return what was written.
 */
export function noLockTable(
  faults: readonly string[],
  { store, table, sql }: NamedTable,
): LockConfigurationError {
  return new LockConfigurationError(
    `The table ${table} is no lock table: ${faults.join('; ')}. Give ${store} another table, or rename that one. A lock table is made by: ${inOneLine(sql)}`,
  );
}

/** The error of a store that may not make its table. */
export function noTable({ store, table }: Omit<NamedTable, 'sql'>): LockConfigurationError {
  return new LockConfigurationError(
    `There is no lock table ${table} in this database, and ${store} makes none with access 'write' or 'read'. Either no process has locked here yet, or the application has another database, schema or table.`,
  );
}

/** The error of a store whose user may not make the table. @param why what the database says, as a part of the sentence */
export function notMadeError(
  { store, table, sql }: NamedTable,
  why: string,
  cause: unknown,
): LockConfigurationError {
  return new LockConfigurationError(
    `The lock table ${table} is missing, and the user of ${store} cannot make it${why} Run this as another user, and grant SELECT, INSERT, UPDATE and DELETE on it: ${inOneLine(sql)}`,
    { cause },
  );
}

/** A statement on one line, because messages are lines of a log. */
function inOneLine(sql: string): string {
  return `${sql.replaceAll(/\s+/g, ' ')};`;
}

/** The name of a table, with or without its schema, each part in quotes. */
export function quoted(table: string, quote: '"' | '`'): string {
  return table.replaceAll(/[^.]+/g, `${quote}$&${quote}`);
}
