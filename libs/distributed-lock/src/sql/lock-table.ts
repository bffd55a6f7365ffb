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
 * The statement that creates the table of the locks, for migrations. A store creates the table itself on first use, if its user
 * has the right.
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
  /** The name of the store function, such as `mysqlStore`. */
  readonly store: string;
  readonly table: string;
  readonly sql: string;
}

/**
 * The error for a table of the right name that is not as `lockTableSql` creates it. Exclusion needs its unique key on `name`, and
 * columns that return exactly what was written.
 */
export function otherTableError(
  faults: readonly string[],
  { store, table, sql }: NamedTable,
): LockConfigurationError {
  return new LockConfigurationError(
    `The table ${table} is no lock table: ${faults.join('; ')}. Give ${store} another table, or rename that one. A lock table is made by: ${inOneLine(sql)}`,
  );
}

/** The error of a store whose option `access` forbids it to create the table, and that finds none. */
export function missingTableError({ store, table }: Omit<NamedTable, 'sql'>): LockConfigurationError {
  return new LockConfigurationError(
    `There is no lock table ${table} in this database, and ${store} makes none with access 'write' or 'read'. Either no process has locked here yet, or the application has another database, schema or table.`,
  );
}

/**
 * The error of a store whose database user has no right to create the table.
 *
 * @param why what the database says, to go into the sentence
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

/** A statement on one line, because messages are lines of a log. */
function inOneLine(sql: string): string {
  return `${sql.replaceAll(/\s+/g, ' ')};`;
}

/** The name of a table, with or without its schema, each part in quotes. */
export function quoted(table: string, quote: '"' | '`'): string {
  return table.replaceAll(/[^.]+/g, `${quote}$&${quote}`);
}

/** The longest name in bytes. It fits into an index of each of the databases. */
const MAX_BYTES = 2000;

const INTRODUCTION = 'nest_lock_client:';

/** The name of the row that holds the holder entry of one client. No lock has such a name. */
export function holderEntryRow(clientId: string): string {
  return INTRODUCTION + clientId;
}

export function isHolderEntry(name: string): boolean {
  return name.startsWith(INTRODUCTION);
}

/** @param name `keyPrefix` and the key @throws LockKeyError for a name that a text column cannot hold as it is */
export function checkRowName(name: string): void {
  checkNameBytes(name, MAX_BYTES, `at most ${MAX_BYTES} fit into the lock table`);
  if (name.includes('\0')) {
    throw new LockKeyError(
      `The key ${JSON.stringify(name)} has a NUL character, which no text column holds.`,
      name,
    );
  }
}

/** @throws LockKeyError for a name that no row can have, and for the name of a row with a holder entry */
export function checkLockName(name: string): void {
  checkRowName(name);
  if (!isHolderEntry(name)) return;
  throw new LockKeyError(
    `"${name}" is the name of a row in which a client tells who it is. Choose another key.`,
    name,
  );
}

/** A table, as its server describes it. */
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
  /** Columns of the key, in order. `null` stands for an expression, or for a part of a column. */
  readonly columns: readonly (string | null)[];
  /** The server checks the key for all rows, after each statement and not only at the commit. */
  readonly isComplete: boolean;
}

/** The columns that statements write: the type that messages name, and the types that are accepted. */
export type Columns = Readonly<Record<string, { readonly type: string; readonly matches: RegExp }>>;

/** @throws LockConfigurationError unless the table is as `lockTableSql` creates it. It may have more columns, if they may stay empty */
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

/** Finds a missing unique key on `name`, and other unique keys, which could make a write fail or change the row of another lock. */
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
  /** The table of the locks, with its schema if need be: `app.nest_lock`; default `nest_lock`. Created on first use. */
  readonly table?: string;
  /**
   * With `create`, the default, the store creates its table on first use. With `write` it creates no table, and refuses every
   * request while the table is missing. With `read` it creates no table either, and writes nothing: it lists and inspects locks,
   * for which its user needs only the right to SELECT, and refuses all other requests.
   */
  readonly access?: 'create' | 'write' | 'read';
  /**
   * How long one statement may take, in ms, before its connection is given up and replaced; default 500. It limits how long a
   * failure can go unnoticed, and how late a call settles after its `waitMs`. At most a third of the module's
   * `watchdogTimeoutMs`.
   */
  readonly commandTimeoutMs?: number;
}

/** Options that the class of each database takes. */
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
/** How long, in ms, an owner has to confirm a grant that another client wrote. */
export const SQL_INITIAL_LEASE_MS = 1000;
/** The longest name of a table, in characters. Names of its indexes and constraints append endings to it. */
const MAX_NAME = 48;

/** @throws LockConfigurationError unless it is an identifier that needs no quotes, with or without a schema */
export function checkTableName(table: string): void {
  const parts = typeof table === 'string' ? table.split('.') : [];
  const isName = (part: string) => /^[a-z_][a-z0-9_]*$/i.test(part) && part.length <= MAX_NAME;
  if ((parts.length === 1 || parts.length === 2) && parts.every(isName)) return;
  throw new LockConfigurationError(
    `table must be a name of letters, digits and _, at most ${MAX_NAME} of them, with or without a schema, as app.nest_lock; it is ${JSON.stringify(table)}.`,
  );
}
