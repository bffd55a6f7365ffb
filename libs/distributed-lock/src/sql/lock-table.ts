import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptions, type OptionRule } from '../port/option-checks.js';

export const DEFAULT_TABLE = 'nest_lock';
/** How long a table's name may be, in characters. The names of indexes and constraints are this name plus an ending. */
const MAX_NAME = 48;

export const TABLE_OPTION: OptionRule = [
  (table) => {
    const parts = typeof table === 'string' ? table.split('.') : [];
    const isName = (part: string) => /^[a-z_][a-z0-9_]*$/i.test(part) && part.length <= MAX_NAME;
    return (parts.length === 1 || parts.length === 2) && parts.every(isName);
  },
  `a name of letters, digits and _, at most ${MAX_NAME} of them, with or without a schema, as app.nest_lock`,
  (table) => JSON.stringify(table),
];

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
  sqlite: (table: string) => `CREATE TABLE IF NOT EXISTS ${quoted(table, '"')} (
  name TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  state TEXT,
  last INTEGER NOT NULL,
  at INTEGER NOT NULL,
  notes TEXT NOT NULL
) WITHOUT ROWID`,
} as const;

/**
 * The statement that creates the lock table, for migrations. Without a migration the store creates the table itself on first use,
 * if its database user may do so.
 *
 * @param table as in the options of the store; default `nest_lock`
 * @throws LockConfigurationError for another dialect, and for a name that no table can have
 */
export function lockTableSql(dialect: 'postgres' | 'mysql', table = DEFAULT_TABLE): string {
  if (!['postgres', 'mysql'].includes(dialect)) {
    throw new LockConfigurationError(`dialect must be 'postgres' or 'mysql'; it is ${String(dialect)}.`);
  }
  checkOptions('lockTableSql', { table }, { table: TABLE_OPTION });
  return STATEMENTS[dialect](table);
}

/** Quotes the name of a table, and the name of its schema if there is one. */
export function quoted(table: string, quote: '"' | '`'): string {
  return table.replaceAll(/[^.]+/g, `${quote}$&${quote}`);
}

/** The lock table of one store. */
export class LockTable {
  /** The name in quotes, for statements. */
  readonly quoted: string;
  /** The statement that creates the table. */
  readonly sql: string;

  constructor(
    private readonly dialect: keyof typeof STATEMENTS,
    readonly name: string,
  ) {
    this.quoted = quoted(name, dialect === 'mysql' ? '`' : '"');
    this.sql = STATEMENTS[dialect](name);
  }

  /**
   * @throws LockConfigurationError unless the table has the columns and keys of `lockTableSql`. More columns are fine if an INSERT
   * may leave them out
   */
  check(shape: TableShape, columns: Columns): void {
    this.throwFaults([...shape.faults, ...columnFaults(shape, columns), ...keyFaults(shape, columns)]);
  }

  /**
   * Rejects a table with faults. Without the unique key on `name`, two processes could hold one lock. And the columns must return
   * exactly what was written.
   */
  throwFaults(faults: readonly string[]): void {
    if (faults.length === 0) return;
    throw new LockConfigurationError(
      `The table ${this.name} is no lock table: ${faults.join('; ')}. Give ${this.store} another table, or rename that one. A lock table is made by: ${this.sqlInOneLine}`,
    );
  }

  /** The error for a missing table if the option `access` forbids the store to create it. */
  missingError(): LockConfigurationError {
    return new LockConfigurationError(
      `There is no lock table ${this.name} in this database, and ${this.store} makes none with access 'write' or 'read'. Either no process has locked here yet, or the application has another database, schema or table.`,
    );
  }

  /** The error for a missing table that the store's database user may not create. @param why what the database says about it */
  notMadeError(why: string, cause: unknown): LockConfigurationError {
    return new LockConfigurationError(
      `The lock table ${this.name} is missing, and the user of ${this.store} cannot make it${why} Run this as another user, and grant SELECT, INSERT, UPDATE and DELETE on it: ${this.sqlInOneLine}`,
      { cause },
    );
  }

  private get store(): string {
    return `${this.dialect}Store`;
  }

  /** For log messages, which have one line. */
  private get sqlInOneLine(): string {
    return `${this.sql.replaceAll(/\s+/g, ' ')};`;
  }
}

/** The lock table's columns and keys, as the server describes them. */
export interface TableShape {
  /** The mistakes of the table as a whole, for example that it is a view. */
  readonly faults: readonly string[];
  readonly columns: readonly {
    readonly name: string;
    readonly type: string;
    readonly isNullable: boolean;
    /** An INSERT without this column fails, because the column is NOT NULL and has no default. */
    readonly mustBeGiven: boolean;
  }[];
  readonly uniqueKeys: readonly {
    readonly name: string;
    /** Columns of the key, in order. `null` for an expression, or for a key over only a part of a column. */
    readonly columns: readonly (string | null)[];
    /** The server enforces the key for all rows (it is no partial index), and after each statement instead of only at the commit. */
    readonly isComplete: boolean;
  }[];
}

/** The columns of the store's statements. `type` is for messages, and `matches` tests what the server reports. */
export type Columns = Readonly<Record<string, { readonly type: string; readonly matches: RegExp }>>;

function columnFaults({ columns }: TableShape, expected: Columns): readonly string[] {
  const missing = Object.entries(expected).filter(
    ([name]) => !columns.some((column) => column.name === name),
  );
  const faults = columns.flatMap(({ name, type, isNullable, mustBeGiven }) => {
    const wanted = Object.hasOwn(expected, name) ? expected[name] : undefined;
    if (!wanted) return mustBeGiven ? [`its column ${name} has no default`] : [];
    if (!wanted.matches.test(type)) return [`${name} is ${type} and not ${wanted.type}`];
    return name === 'state' && !isNullable ? ['state must be NULL where a key is free'] : [];
  });
  if (missing.length === 0) return faults;
  return [`it lacks ${missing.map(([name, { type }]) => `${name} ${type}`).join(', ')}`, ...faults];
}

/** Reports other unique keys than that on `name`, too: they could make a write fail, or overwrite the row of another lock. */
function keyFaults({ uniqueKeys }: TableShape, expected: Columns): readonly string[] {
  const hasKey = uniqueKeys.some(({ columns, isComplete }) => isComplete && columns.join() === 'name');
  const others = uniqueKeys.filter(
    ({ columns }) =>
      !columns.includes('name') &&
      columns.some((column) => column === null || Object.hasOwn(expected, column)),
  );
  return [
    ...(hasKey ? [] : ['name is not its primary or unique key']),
    ...others.map(({ name }) => `its unique key ${name} refuses rows of different keys`),
  ];
}
