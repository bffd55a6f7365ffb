import { isOver, leftOf } from '../document/document.js';
import type { Lock } from '../lock/lock.js';
import { LockConfigurationError, LockError } from '../port/lock.errors.js';
import { checkOptions, describeGiven, RULE, type OptionRules } from '../port/option-checks.js';
import { type LockRow, nestedErrors, readingOf } from '../sql/database.js';
import { DEFAULT_TABLE, quoted, TABLE_OPTION } from '../sql/lock-table.js';
import { assertAlone, type Fence, NESTED_WRITES, type NestedWrites } from './fence.js';

const RULES: OptionRules<HeldUntilCommitOptions> = {
  dialect: RULE.oneOf('postgres', 'mysql'),
  table: TABLE_OPTION,
  keyPrefix: RULE.text,
  nested: NESTED_WRITES,
};

/**
 * The last statement of a transaction, in the database where a SQL store has this lock: no other owner is granted the lock
 * before the transaction ends, even if the lease is over by then. No table needs a column for a fence.
 *
 * A store grants, renews and releases a lock by writing its row. This statement locks the row against writers, then checks
 * that the row has this grant. Until the transaction ends, each client that writes the row waits, the watchdog of this lock
 * included, so commit at once. Release the lock after the commit.
 *
 * @param query the query function of the transaction's own connection
 * @throws CommitRefusedError when the row does not have this grant, or its lease is over; LockLostError or
 * LockNotHeldError when the lock knows it by itself; LockConfigurationError outside of a transaction, except in MySQL, which
 * does not tell. Each must roll the transaction back
 */
export async function heldUntilCommit(
  query: SqlQuery,
  lock: Pick<Lock, 'keys' | 'tokenOf' | 'assertHeld'> & Pick<Fence, 'depth' | 'calls'>,
  options: HeldUntilCommitOptions = {},
): Promise<void> {
  checkOptions('heldUntilCommit', options, RULES);
  const { dialect = 'postgres', table = DEFAULT_TABLE, keyPrefix = '', nested } = options;
  checkGiven(query, lock);
  lock.assertHeld();
  const { keys, depth, calls } = lock;
  assertAlone({ key: keys.join(', '), depth, calls }, nested);
  const rows = new HeldRows(query, { dialect, table, keyPrefix });
  // The statements of a store lock several rows in this order, too, so that the two cannot deadlock.
  for (const key of lock.keys.toSorted(byBytes)) await rows.hold({ key, fencingToken: lock.tokenOf(key) });
}

/** Options of `heldUntilCommit`: in which table the store has its locks, and under which names. */
export interface HeldUntilCommitOptions {
  /** Default `postgres`. */
  readonly dialect?: SqlDialect;
  /** The `table` of the store; default `nest_lock`. */
  readonly table?: string;
  /** The `keyPrefix` of the module; default none. */
  readonly keyPrefix?: string;
  /** Whether a call may commit under a lock that it shares with another call; default `'allow'`. */
  readonly nested?: NestedWrites;
}

/** Checks and locks the rows of locks, on the connection of one transaction. */
class HeldRows {
  constructor(
    private readonly query: SqlQuery,
    private readonly options: Required<Omit<HeldUntilCommitOptions, 'nested'>>,
  ) {}

  async hold(fence: Fence): Promise<void> {
    const { dialect, table, keyPrefix } = this.options;
    const name = keyPrefix + fence.key;
    const row = await this.run(lockedRow(dialect, table, name));
    const why = row ? this.whyNotHeld(row, fence) : noRow(table, name);
    if (why !== undefined) throw new CommitRefusedError(fence.key, fence.fencingToken, why);
    await this.assertInside(row);
  }

  private whyNotHeld(row: SqlRow, { key, fencingToken }: Fence): string | undefined {
    const missing = ['state', 'last', 'at', 'now'].filter((column) => row[column] === undefined);
    if (missing.length > 0) throw queryError(this.options.table, `did not answer ${missing.join(', ')}`);
    const { document, lastToken, now } = readingOf(key, row as unknown as LockRow);
    const { holders } = document;
    const holder = holders.find(
      ({ token, lastToken: last }) => token <= fencingToken && fencingToken <= last,
    );
    if (!holder) {
      const state = holders[0] ? `held by ${holders[0].owner}` : 'free';
      return `the lock is ${state}, with ${lastToken} as its last token`;
    }
    if (!isOver(holder.until, now)) return undefined;
    return `its lease ended ${Math.round(-leftOf(holder.until, now))} ms ago by the clock of the server`;
  }

  /**
   * Refuses a call outside of a transaction. There the database unlocks the row right after the statement, so the lock could be
   * granted to another owner before the commit.
   */
  private async assertInside(row: SqlRow | undefined): Promise<void> {
    const isInside = (answer: SqlRow | undefined) => Number(answer?.['inside'] ?? 1) === 1;
    if (isInside(row)) return;
    if (this.options.dialect === 'postgres' && isInside(await this.run(INSIDE_POSTGRES))) return;
    throw new LockConfigurationError(
      'heldUntilCommit was called outside of a transaction, or on another connection. Call it as the last statement of a transaction, with the query function of its connection.',
    );
  }

  private async run({ sql, parameters }: SqlStatement): Promise<SqlRow | undefined> {
    const { table } = this.options;
    try {
      return rowsOf(await this.query(sql, [...parameters]), table)[0];
    } catch (cause) {
      if (isMissingTable(cause)) throw missingTableError(table, cause);
      throw cause;
    }
  }
}

/** Error codes for a missing table: of PostgreSQL, and of MySQL as its client and ORMs report them. */
const NO_SUCH_TABLE: readonly unknown[] = ['42P01', 'ER_NO_SUCH_TABLE', 1146, '1146'];

function isMissingTable(error: unknown): boolean {
  return nestedErrors(error).some(({ code, originalCode, errno }) =>
    [code, originalCode, errno].some((known) => NO_SUCH_TABLE.includes(known)),
  );
}

function missingTableError(table: string, cause: unknown): LockConfigurationError {
  return new LockConfigurationError(
    `Your locks are not in this database: it has no table ${table}. heldUntilCommit needs a SQL store with its table in the database of the transaction, and the same option table. With locks in Redis, in etcd, in ZooKeeper or in another database use a fence.`,
    { cause },
  );
}

function noRow(table: string, name: string): string {
  return `${table} has no row "${name}". If the store of this lock has another table or keyPrefix, heldUntilCommit needs the same; if it is not this database, use a fence`;
}

function checkGiven(query: unknown, lock: unknown): void {
  if (typeof query !== 'function') {
    throw new LockConfigurationError(
      `heldUntilCommit takes a function that runs a query; it was given ${describeGiven(query)}.`,
    );
  }
  if (typeof (lock as Partial<Lock> | undefined)?.assertHeld === 'function') return;
  throw new LockConfigurationError(
    `heldUntilCommit takes the Lock under which the transaction was begun; it was given ${describeGiven(lock)}.`,
  );
}

/** Compares names by their bytes, as the databases do. */
function byBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

/**
 * The transaction must be rolled back: by the row of the lock, this grant does not hold it any more.
 *
 * Its code is `LOCK_LOST`, so that filters and callers treat it like any other lost lock.
 */
export class CommitRefusedError extends LockError {
  readonly code = 'LOCK_LOST';

  constructor(
    key: string,
    /** The token of the lock under which the transaction ran. */
    readonly tokenOffered: number,
    reason: string,
  ) {
    super(
      `Refused the commit under "${key}" with token ${tokenOffered}: ${reason}. Roll the transaction back, acquire the lock again and start from reading.`,
      key,
    );
  }
}

interface SqlStatement {
  readonly sql: string;
  readonly parameters: readonly unknown[];
}

const QUOTES = { postgres: '"', mysql: '`' } as const;

/**
 * The columns of a lock's row as `readingOf` of the SQL stores expects them, and `inside`: whether the statement runs in a
 * transaction.
 */
const COLUMNS: Readonly<Record<SqlDialect, string>> = {
  postgres: `version, state, last, at, '' AS notes, CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint) AS now,
    CASE WHEN (SELECT pg_current_xact_id_if_assigned()) IS NULL THEN 0 ELSE 1 END AS inside`,
  // MariaDB executes what stands in `/*M! … */`. For MySQL, which lacks this variable, it is a comment.
  mysql: `version, state, last, at, '' AS notes, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now
    /*M! , @@in_transaction AS inside */`,
};

/** The statement that reads the newest state of a lock's row, and locks the row against writers until the transaction ends. */
function lockedRow(dialect: SqlDialect, table: string, name: string): SqlStatement {
  const select = `SELECT ${COLUMNS[dialect]} FROM ${quoted(table, QUOTES[dialect])} WHERE name =`;
  if (dialect === 'postgres') return { sql: `${select} $1 FOR SHARE`, parameters: [name] };
  // Convert the name to utf8mb4, because the column has UTF-8 bytes, whatever the character set of the connection.
  return { sql: `${select} CONVERT(? USING utf8mb4) LOCK IN SHARE MODE`, parameters: [name] };
}

/**
 * A second statement, which finds out whether the transaction goes on. Postgres gives a transaction an id when it first writes or
 * locks a row. The first statement does that, so its own `inside` is still 0. In this one `inside` is 1 if both run in the same
 * transaction.
 */
const INSIDE_POSTGRES: SqlStatement = {
  sql: 'SELECT CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN 0 ELSE 1 END AS inside',
  parameters: [],
};

/**
 * Runs one statement on the connection of a transaction, and returns its rows. For pg and mysql2 see
 * docs/recipes/sql.md#held-until-the-commit, for each ORM docs/recipes/orms.md.
 *
 * @param sql with `$1`, `$2`, … in the order of `parameters`, each used one time; with `?` for MySQL
 */
export type SqlQuery = (sql: string, parameters: unknown[]) => Promise<SqlAnswer>;

/** The database of the transaction: PostgreSQL, or MySQL and MariaDB. */
export type SqlDialect = 'postgres' | 'mysql';

/** One row: column name → value. */
export type SqlRow = Readonly<Record<string, unknown>>;

/**
 * The result of the application's query function: a list of rows as objects, or an object with that list under `rows`. Most drivers
 * return one of the two.
 */
export type SqlAnswer = readonly SqlRow[] | { readonly rows: readonly SqlRow[] };

/** @throws LockConfigurationError for a result that is no list of rows */
function rowsOf(answer: unknown, table: string): readonly SqlRow[] {
  const { rows } = (Array.isArray(answer) ? { rows: answer } : (answer ?? {})) as { rows?: unknown };
  if (!Array.isArray(rows))
    throw queryError(table, `answered ${describeGiven(answer)} without a list of rows`);
  for (const row of rows as readonly unknown[]) {
    if (typeof row === 'object' && row !== null && !Array.isArray(row)) continue;
    throw queryError(table, `answered ${describeGiven(row)} as a row`);
  }
  return rows as readonly SqlRow[];
}

function queryError(table: string, what: string): LockConfigurationError {
  return new LockConfigurationError(
    `The query function of the table ${table} ${what}. It must answer the rows as objects, alone or as { rows }. The statement has been sent: roll back its transaction.`,
  );
}
