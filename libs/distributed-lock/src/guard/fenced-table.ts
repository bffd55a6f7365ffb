import { describeGiven } from '../lock/describe-given.js';
import { LockConfigurationError } from '../lock/lock.errors.js';
import { checkOptionNames, type OptionNames } from '../lock/option-names.js';
import { assertFresh, type Fence } from './fence.js';
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

export interface SqlResult {
  readonly rows: readonly SqlRow[];
  /** How many rows the statement has met or written. MySQL's clients must count rows that it met, as mysql2 does. */
  readonly changed: number;
}

/** Runs one statement of yours or of a transaction of yours; a line for each driver in docs/recipes.md. */
export type SqlQuery = (sql: string, parameters: unknown[]) => Promise<SqlResult>;

export interface FencedTableOptions {
  readonly table: string;
  /** Default `fence`: a column `BIGINT NOT NULL DEFAULT 0`. */
  readonly fence?: string;
  /** Default `postgres`. */
  readonly dialect?: SqlDialect;
}

const OPTION_NAMES: OptionNames<FencedTableOptions> = { table: true, fence: true, dialect: true };

/** What to write to which row. */
export interface FencedWrite extends FencedChange {
  readonly where: SqlRow;
}

/**
 * A table whose rows refuse whoever comes with a smaller fencing token than they have seen.
 *
 * Read with `read`, which raises the fence, then write with `update`: to check at the write alone lets an earlier holder
 * write between the read and the write of a later one. The same token may come as often as it likes.
 *
 * A row that is deleted forgets its fence: mark rows as gone instead where a late holder could bring them back.
 */
export class FencedTable {
  private readonly options: Required<FencedTableOptions>;

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
   * The rows as they are now, refused from now on to all earlier holders.
   *
   * @param returning SQL of the columns, by default all; MySQL has no `RETURNING`: there read after this by a query of yours
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
  async update({ where, ...change }: FencedWrite, fence: Fence): Promise<SqlResult> {
    const rows = this.rows(where, fence);
    const result = await this.run(fencedUpdate(rows, fence.fencingToken, change));
    if (result.changed === 0) await this.refuseStale(rows, fence);
    return result;
  }

  /**
   * Writes the row whether it is there or not; `where` must be a unique index.
   *
   * @throws StaleTokenError when the row has seen a larger token; nothing is written then
   */
  async upsert({ where, ...change }: FencedWrite, fence: Fence): Promise<SqlResult> {
    if (this.options.dialect === 'mysql') return this.updateOrInsert({ where, ...change }, fence);
    const rows = this.rows(where, fence);
    const result = await this.run(fencedUpsert(rows, fence.fencingToken, change));
    if (result.changed === 0) await this.refuseStale(rows, fence);
    return result;
  }

  /** MySQL cannot refuse inside its upsert and say so. */
  private async updateOrInsert({ where, ...change }: FencedWrite, fence: Fence): Promise<SqlResult> {
    const updated = await this.update({ where, ...change }, fence);
    if (updated.changed > 0) return updated;
    try {
      return await this.run(fencedInsert(this.rows(where, fence), fence.fencingToken, change));
    } catch (error) {
      // Another may have inserted it in between: then there is a row now, and its fence decides.
      const again = await this.update({ where, ...change }, fence);
      if (again.changed === 0) throw error;
      return again;
    }
  }

  private async refuseStale(rows: FencedRows, fence: Fence): Promise<void> {
    const { rows: found } = await this.run(tokenSeen(rows));
    // Drivers give BIGINT as text or bigint; tokens are safe integers.
    assertFresh(fence, Number(found[0]?.['seen'] ?? 0));
  }

  private run({ sql, parameters }: SqlStatement): Promise<SqlResult> {
    return this.query(sql, [...parameters]);
  }

  private rows(where: SqlRow, { fencingToken }: Fence): FencedRows {
    if (!Number.isSafeInteger(fencingToken) || fencingToken < 1) {
      throw new LockConfigurationError(
        `A fencing token is a whole number from 1 on; this one is ${String(fencingToken)}.`,
      );
    }
    if (Object.keys(where).length === 0) {
      throw new LockConfigurationError(`where must name the row of ${this.options.table}: it is empty.`);
    }
    return { ...this.options, where };
  }
}
