import { describeGiven } from '../options/describe-given.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptionNames, type OptionNames } from '../options/option-names.js';
import { assertFresh, assertToken, type Fence } from './fence.js';
import {
  checkDialect,
  fencedInsert,
  fencedUpdate,
  fencedUpsert,
  tokenSeen,
  type FencedChange,
  type FencedRows,
  type SqlDialect,
  type SqlRow,
  type SqlStatement,
} from './fenced-sql.js';
import { assertNamesRow } from './named-row.js';
import { resultOf, unusable, type SqlAnswer, type SqlResult } from './sql-answer.js';

/**
 * Runs one statement on a connection of yours and returns its rows. docs/recipes/guards.md#sql has it for pg and mysql2,
 * docs/recipes/orms.md for each ORM.
 *
 * Within a transaction it must use the transaction's own connection. A statement on another connection waits for the row
 * locks of the transaction, which waits for the statement, and its write stays when the transaction is rolled back.
 *
 * @param sql with `$1`, `$2`, … in the order of `parameters`, each once; `?` for MySQL
 */
export type SqlQuery = (sql: string, parameters: unknown[]) => Promise<SqlAnswer>;

/** Options of `FencedTable`. */
export interface FencedTableOptions {
  readonly table: string;
  /** Default `fence`: a column `BIGINT NOT NULL DEFAULT 0`. */
  readonly fence?: string;
  /** Default `postgres`. */
  readonly dialect?: SqlDialect;
}

const OPTION_NAMES: OptionNames<FencedTableOptions> = { table: true, fence: true, dialect: true };

/** A row, and the values to write to it. */
export interface FencedWrite extends FencedChange {
  readonly where: SqlRow;
}

/**
 * A table whose rows refuse a smaller fencing token than they have seen.
 *
 * Read with `read`, which raises the fence, then write with `update`. A check at the write alone lets an earlier holder
 * write between the read and the write of a later one. The same token may be used any number of times.
 *
 * In a transaction, pass the transaction's own connection and begin with `read`. The row is then locked until the end, so
 * that everything else the transaction writes is as safe as the row. A rollback takes the fence back with the writes.
 *
 * A row that is deleted forgets its fence. Mark rows as gone instead where a late holder could bring them back.
 */
export class FencedTable {
  private readonly options: Required<FencedTableOptions>;

  /** @param query in a transaction, that of its own connection */
  constructor(
    private readonly query: SqlQuery,
    options: FencedTableOptions,
  ) {
    checkOptionNames('FencedTable', options, OPTION_NAMES);
    const { table, fence = 'fence', dialect = 'postgres' } = options;
    if (typeof query !== 'function') {
      throw new LockConfigurationError(
        `FencedTable takes a function that runs a query; it was given ${describeGiven(query)}.`,
      );
    }
    if (typeof table !== 'string' || table === '') {
      throw new LockConfigurationError(`table must be the name of a table; it is ${describeGiven(table)}.`);
    }
    checkDialect(dialect);
    this.options = { table, fence, dialect };
  }

  /**
   * The rows as they are now. From now on they refuse all earlier holders.
   *
   * @param returning SQL of the columns, by default all. MySQL has no `RETURNING`: there read by a query of your own after this
   * @returns no row and `changed` 0 when there is none
   * @throws StaleTokenError when the row has seen a larger token
   */
  read(where: SqlRow, fence: Fence, returning = '*'): Promise<SqlResult> {
    const { dialect } = this.options;
    return this.update({ where, ...(dialect === 'postgres' && { returning }) }, fence);
  }

  /**
   * @returns `changed` 0 when there is no such row
   * @throws StaleTokenError when the row has seen a larger token; nothing is written then
   */
  update(write: FencedWrite, fence: Fence): Promise<SqlResult> {
    return this.writeFresh(fencedUpdate, write, fence);
  }

  /**
   * Writes the row, whether it exists or not. `where` must be a unique index.
   *
   * @throws StaleTokenError when the row has seen a larger token; nothing is written then
   */
  upsert(write: FencedWrite, fence: Fence): Promise<SqlResult> {
    if (this.options.dialect === 'mysql') return this.updateOrInsert(write, fence);
    return this.writeFresh(fencedUpsert, write, fence);
  }

  /** For MySQL, whose upsert cannot refuse a row and say so. */
  private async updateOrInsert(write: FencedWrite, fence: Fence): Promise<SqlResult> {
    const updated = await this.update(write, fence);
    if (updated.changed > 0) return updated;
    try {
      return await this.write(fencedInsert, write, fence);
    } catch (error) {
      // Another holder may have inserted the row in between. Then its fence decides.
      const again = await this.update(write, fence);
      if (again.changed === 0) throw error;
      return again;
    }
  }

  private async writeFresh(build: typeof fencedUpdate, write: FencedWrite, fence: Fence): Promise<SqlResult> {
    const result = await this.write(build, write, fence);
    if (result.changed === 0) await this.refuseStale(this.rows(write.where, fence), fence);
    return result;
  }

  /** Counts the rows of `RETURNING` where there is one, because not every driver tells how many rows it wrote. */
  private async write(
    build: typeof fencedUpdate,
    { where, ...change }: FencedWrite,
    fence: Fence,
  ): Promise<SqlResult> {
    const rows = this.rows(where, fence);
    const isMysql = rows.dialect === 'mysql';
    const returning = change.returning ?? '1 AS written';
    const statement = build(rows, fence.fencingToken, isMysql ? change : { ...change, returning });
    const result = resultOf(await this.run(statement), rows.table, { mustCount: isMysql });
    return isMysql || change.returning !== undefined ? result : { ...result, rows: [] };
  }

  private async refuseStale(rows: FencedRows, fence: Fence): Promise<void> {
    const { table } = rows;
    const [found] = resultOf(await this.run(tokenSeen(rows)), table).rows;
    // Drivers give BIGINT as text or bigint; tokens are safe integers.
    const { seen = NaN, unfenced = NaN } = found ?? {};
    if (Number.isNaN(Number(seen)) || Number.isNaN(Number(unfenced))) {
      throw unusable(table, 'did not answer the columns seen and unfenced of a SELECT');
    }
    assertFresh(fence, Number(seen));
    if (Number(unfenced) === 0) return;
    throw new LockConfigurationError(
      `The fence of a row of ${table} is NULL, which refuses everybody: make the column ${rows.fence} BIGINT NOT NULL DEFAULT 0.`,
    );
  }

  private run({ sql, parameters }: SqlStatement): Promise<SqlAnswer> {
    return this.query(sql, [...parameters]);
  }

  private rows(where: SqlRow, fence: Fence): FencedRows {
    // JavaScript passes `undefined` where a method has no lock.
    assertToken((fence as Fence | undefined)?.fencingToken);
    assertNamesRow(where, this.options.table);
    return { ...this.options, where };
  }
}
