import type { Clock } from '../common/clock.js';
import { checkNameBytes } from '../connection/checks.js';
import { LockConfigurationError, LockKeyError } from '../port/lock.errors.js';
import { checkOptionNames, describeGiven, type OptionNames } from '../port/option-checks.js';

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
 * The statement that creates the lock table, for migrations. Without a migration the store creates the table itself on first use,
 * if its database user may do so.
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

interface NamedTable {
  /** The name of the store function in messages, such as `mysqlStore`. */
  readonly store: string;
  readonly table: string;
  readonly sql: string;
}

/**
 * The error for a table that has the right name but not the columns and keys of `lockTableSql`. Without the unique key on `name`,
 * two processes could hold one lock. And the columns must return exactly what was written.
 */
export function otherTableError(
  faults: readonly string[],
  { store, table, sql }: NamedTable,
): LockConfigurationError {
  return new LockConfigurationError(
    `The table ${table} is no lock table: ${faults.join('; ')}. Give ${store} another table, or rename that one. A lock table is made by: ${inOneLine(sql)}`,
  );
}

/** The error for a missing table if the option `access` forbids the store to create it. */
export function missingTableError({ store, table }: Omit<NamedTable, 'sql'>): LockConfigurationError {
  return new LockConfigurationError(
    `There is no lock table ${table} in this database, and ${store} makes none with access 'write' or 'read'. Either no process has locked here yet, or the application has another database, schema or table.`,
  );
}

/**
 * The error for a missing table that the store's database user may not create.
 *
 * @param why what the database says about it, to be put into the sentence
 */
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

/** A statement on one line, because log messages have one line. */
function inOneLine(sql: string): string {
  return `${sql.replaceAll(/\s+/g, ' ')};`;
}

/** Quotes the name of a table, and the name of its schema if there is one. */
export function quoted(table: string, quote: '"' | '`'): string {
  return table.replaceAll(/[^.]+/g, `${quote}$&${quote}`);
}

/** How long a row's name may be, in bytes. The index of each database has room for it. */
const MAX_BYTES = 2000;

const INTRODUCTION = 'nest_lock_client:';

/**
 * The name of the row with a client's holder entry, by which other processes learn who holds a lock. `checkLockName` refuses locks
 * of such names.
 */
export function holderEntryRow(clientId: string): string {
  return INTRODUCTION + clientId;
}

export function isHolderEntry(name: string): boolean {
  return name.startsWith(INTRODUCTION);
}

/** @param name `keyPrefix` and the key together @throws LockKeyError for a name that a text column cannot store unchanged */
export function checkRowName(name: string): void {
  checkNameBytes(name, MAX_BYTES, `at most ${MAX_BYTES} fit into the lock table`);
  if (name.includes('\0')) {
    throw new LockKeyError(
      `The key ${JSON.stringify(name)} has a NUL character, which no text column holds.`,
      name,
    );
  }
}

/** @throws LockKeyError for a name that no row can have, and for the name of a holder entry's row */
export function checkLockName(name: string): void {
  checkRowName(name);
  if (!isHolderEntry(name)) return;
  throw new LockKeyError(
    `"${name}" is the name of a row in which a client tells who it is. Choose another key.`,
    name,
  );
}

/** The lock table's columns and keys, as the server describes them. */
export interface TableShape {
  /** What is wrong with the table as a whole, for example that it is a view. */
  readonly faults: readonly string[];
  readonly columns: readonly Column[];
  readonly uniqueKeys: readonly UniqueKey[];
}

export interface Column {
  readonly name: string;
  readonly type: string;
  readonly isNullable: boolean;
  /** An INSERT without this column fails, because the column is NOT NULL and has no default. */
  readonly mustBeGiven: boolean;
}

export interface UniqueKey {
  readonly name: string;
  /** Columns of the key, in order. `null` for an expression, or for a key over only a part of a column. */
  readonly columns: readonly (string | null)[];
  /** The server enforces the key for all rows (it is no partial index), and after each statement instead of only at the commit. */
  readonly isComplete: boolean;
}

/** The columns that the store's statements use. `type` is for messages, and `matches` tests what the server reports. */
export type Columns = Readonly<Record<string, { readonly type: string; readonly matches: RegExp }>>;

/**
 * @throws LockConfigurationError unless the table has the columns and keys of `lockTableSql`. More columns are fine if an INSERT
 * may leave them out
 */
export function checkShape(shape: TableShape, columns: Columns, named: NamedTable): void {
  const faults = [...shape.faults, ...columnFaults(shape, columns), ...keyFaults(shape, columns)];
  if (faults.length > 0) throw otherTableError(faults, named);
}

function columnFaults(shape: TableShape, expected: Columns): readonly string[] {
  const found = new Map(shape.columns.map((column) => [column.name, column]));
  const missing = Object.entries(expected).filter(([name]) => !found.has(name));
  const wrong = shape.columns.filter(
    ({ name, type }) => isOneOf(expected, name) && !expected[name]!.matches.test(type),
  );
  const others = shape.columns.filter(({ name, mustBeGiven }) => !isOneOf(expected, name) && mustBeGiven);
  return [
    ...(missing.length > 0
      ? [`it lacks ${missing.map(([name, { type }]) => `${name} ${type}`).join(', ')}`]
      : []),
    ...wrong.map(({ name, type }) => `${name} is ${type} and not ${expected[name]!.type}`),
    ...(found.get('state')?.isNullable === false ? ['state must be NULL where a key is free'] : []),
    ...others.map(({ name }) => `its column ${name} has no default`),
  ];
}

/**
 * Reports a missing unique key on `name`. Reports other unique keys, too: they could make a write fail, or overwrite the row of
 * another lock.
 */
function keyFaults({ uniqueKeys }: TableShape, expected: Columns): readonly string[] {
  const hasKey = uniqueKeys.some(({ columns, isComplete }) => isComplete && columns.join() === 'name');
  const others = uniqueKeys.filter(
    ({ columns }) =>
      !columns.includes('name') && columns.some((column) => column === null || isOneOf(expected, column)),
  );
  return [
    ...(hasKey ? [] : ['name is not its primary or unique key']),
    ...others.map(({ name }) => `its unique key ${name} refuses rows of different keys`),
  ];
}

function isOneOf(expected: Columns, name: string): boolean {
  return Object.hasOwn(expected, name);
}

/** Options that all SQL stores have. */
export interface SqlStoreOptions {
  /** The lock table, with its schema if necessary: `app.nest_lock`; default `nest_lock`. Created on first use. */
  readonly table?: string;
  /**
   * `create`, the default: the store creates its table on first use. `write`: it creates no table, and refuses every request while
   * the table is missing. `read`: it writes nothing at all. It can list and inspect locks, for which its database user needs only
   * the right to SELECT, and it refuses all other requests.
   */
  readonly access?: 'create' | 'write' | 'read';
  /**
   * How long one statement may take, in ms, before its connection counts as dead and is replaced; default 500. A shorter time
   * makes the store notice failures earlier, and makes calls end closer to their `waitMs`. At most a third of the module's
   * `watchdogTimeoutMs`.
   */
  readonly commandTimeoutMs?: number;
}

/** Options for the classes that connect to PostgreSQL, MySQL or SQLite. */
export interface SqlDatabaseOptions {
  readonly table: string;
  readonly access: SqlAccess;
  readonly clock: Clock;
}

export type SqlAccess = Required<SqlStoreOptions>['access'];

const ACCESS: readonly SqlAccess[] = ['create', 'write', 'read'];

/** @throws LockConfigurationError for an option that the store does not have, and for a name that no table can have */
export function sqlOptionsOf<Options extends SqlStoreOptions>(
  store: string,
  options: Options,
  names: OptionNames<Options>,
): Required<SqlStoreOptions> {
  checkOptionNames(store, options, names);
  const { table = DEFAULT_TABLE, access = 'create', commandTimeoutMs = SQL_COMMAND_TIMEOUT_MS } = options;
  checkTableName(table);
  if (!ACCESS.includes(access)) {
    throw new LockConfigurationError(
      `access must be 'create', 'write' or 'read'; it is ${describeGiven(access)}.`,
    );
  }
  return { table, access, commandTimeoutMs };
}

export const DEFAULT_TABLE = 'nest_lock';
export const SQL_COMMAND_TIMEOUT_MS = 500;
/** How long, in ms, an owner has to confirm a grant that another client wrote for it. */
export const SQL_INITIAL_LEASE_MS = 1000;
/** How long a table's name may be, in characters. The names of indexes and constraints are this name plus an ending. */
const MAX_NAME = 48;

/** @throws LockConfigurationError unless `table` is an identifier that needs no quotes, with or without a schema */
export function checkTableName(table: string): void {
  const parts = typeof table === 'string' ? table.split('.') : [];
  const isName = (part: string) => /^[a-z_][a-z0-9_]*$/i.test(part) && part.length <= MAX_NAME;
  if ((parts.length === 1 || parts.length === 2) && parts.every(isName)) return;
  throw new LockConfigurationError(
    `table must be a name of letters, digits and _, at most ${MAX_NAME} of them, with or without a schema, as app.nest_lock; it is ${JSON.stringify(table)}.`,
  );
}
