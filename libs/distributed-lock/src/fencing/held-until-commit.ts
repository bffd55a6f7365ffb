import { describeGiven } from '../options/describe-given.js';
import { checkOptions, oneOf, TEXT_OPTION, type OptionRules } from '../options/option-names.js';
import type { Lock } from '../lock/lock.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { isOver, leftOf } from '../stores/core/document.js';
import { nestedErrors } from '../stores/sql/nested-errors.js';
import { checkTableName, DEFAULT_TABLE } from '../stores/sql/sql-options.js';
import { readingOf, type LockRow } from '../stores/sql/sql-row.js';
import { CommitRefusedError } from './commit-refused.error.js';
import { assertAlone, NESTED_WRITES, type Fence, type NestedWrites } from './fence.js';
import { INSIDE_POSTGRES, lockedRow, type SqlStatement } from './held-row-sql.js';
import { rowsOf, unusable, type SqlDialect, type SqlQuery, type SqlRow } from './sql-query.js';

const RULES: OptionRules<HeldUntilCommitOptions> = {
  dialect: oneOf('postgres', 'mysql'),
  table: true,
  keyPrefix: TEXT_OPTION,
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
  checkTableName(table);
  checkGiven(query, lock);
  lock.assertHeld();
  const { keys, depth, calls } = lock;
  assertAlone({ key: keys.join(', '), depth, calls }, nested);
  const rows = new HeldRows(query, { dialect, table, keyPrefix });
  // A statement of a store locks several rows in this order, too.
  for (const key of lock.keys.toSorted(byBytes)) await rows.hold({ key, fencingToken: lock.tokenOf(key) });
}

/** Options of `heldUntilCommit`: where the store has its locks. */
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

/** The rows of locks, seen on the connection of one transaction. */
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
    if (missing.length > 0) throw unusable(this.options.table, `did not answer ${missing.join(', ')}`);
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

  /** Outside of a transaction the row is unlocked at once. */
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

/** The codes of a missing table: of PostgreSQL, and of MySQL by its client and by an ORM. */
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
