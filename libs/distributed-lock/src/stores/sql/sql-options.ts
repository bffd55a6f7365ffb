import { describeGiven } from '../../options/describe-given.js';
import { checkOptionNames, type OptionNames } from '../../options/option-names.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import type { Clock } from '../../time/clock.js';

/** Options that all SQL stores have. */
export interface SqlStoreOptions {
  /** The table of the locks, with its schema if need be: `app.nest_lock`; default `nest_lock`. Made on first use. */
  readonly table?: string;
  /**
   * With `create`, the default, the store makes its table on first use. With `write` it makes no table, and refuses every request
   * while the table is missing. With `read` it makes no table either, and writes nothing: it lists and inspects locks, for which
   * its user needs no right but SELECT, and refuses all other requests.
   */
  readonly access?: 'create' | 'write' | 'read';
  /**
   * How long one statement may take, in ms, before its connection is given up and replaced; default 500. Bounds how long a
   * failure can hide, and how late a call settles after its `waitMs`. At most a third of the watchdog's timeout.
   */
  readonly commandTimeoutMs?: number;
}

/** What each of the databases needs to know. */
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
/** An owner that was granted the lock by another client must confirm it within this time. */
export const SQL_INITIAL_LEASE_MS = 1000;
/** The table's name gets endings in names of indexes and constraints. */
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
