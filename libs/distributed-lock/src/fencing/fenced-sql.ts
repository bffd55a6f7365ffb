import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptionNames, type OptionNames } from '../options/option-names.js';

/** `postgres` also fits SQLite from 3.35 on and other databases with `$1`, `RETURNING` and `ON CONFLICT`. */
export type SqlDialect = 'postgres' | 'mysql';

/** A statement and its parameters, for a query function. */
export interface SqlStatement {
  readonly sql: string;
  readonly parameters: readonly unknown[];
}

/** Values by the names of their columns. */
export type SqlRow = Readonly<Record<string, unknown>>;

/** Names rows of a table. The names must come from the program, never from a request. */
export interface FencedRows {
  readonly dialect: SqlDialect;
  /** With its schema, if any: `shop.goods`. */
  readonly table: string;
  /** The column with the largest token seen: `BIGINT NOT NULL DEFAULT 0`. */
  readonly fence: string;
  /** Columns that name the row, and their values, in the types of the columns. */
  readonly where: SqlRow;
}

/** Values to write. Without `set` only the fence is raised, for reading under a lock. */
export interface FencedChange {
  /** New values by the names of their columns. */
  readonly set?: SqlRow;
  /** SQL after `RETURNING`, for dialects that have it. */
  readonly returning?: string;
}

const ROWS_NAMES: OptionNames<FencedRows> = { dialect: true, table: true, fence: true, where: true };
const CHANGE_NAMES: OptionNames<FencedChange> = { set: true, returning: true };

export function checkDialect(dialect: SqlDialect): void {
  if (dialect === 'postgres' || dialect === 'mysql') return;
  throw new LockConfigurationError(`dialect must be 'postgres' or 'mysql'; it is ${String(dialect)}.`);
}

/** Refuses misspelt names, which would be left out of a statement that raises the fence all the same. */
function checkWrite(rows: FencedRows, change: FencedChange): void {
  checkOptionNames('The rows of a fenced write', rows, ROWS_NAMES);
  checkOptionNames('A fenced write', change, CHANGE_NAMES);
  checkDialect(rows.dialect);
}

/** Updates the rows that have seen no larger token, and raises their fence. */
export function fencedUpdate(rows: FencedRows, token: number, change: FencedChange = {}): SqlStatement {
  checkWrite(rows, change);
  const { dialect, table, fence, where } = rows;
  const sql = new Text(dialect);
  const set = sql.pairs({ ...change.set, [fence]: token }, ', ');
  const named = sql.pairs(where, ' AND ');
  const fresh = `${sql.name(fence)} <= ${sql.value(token)}`;
  return sql.statement(`UPDATE ${sql.name(table)} SET ${set} WHERE ${named} AND ${fresh}`, change.returning);
}

/** Inserts the row with its fence. For a row that exists the database throws its own error. */
export function fencedInsert(rows: FencedRows, token: number, change: FencedChange = {}): SqlStatement {
  checkWrite(rows, change);
  const { dialect, table, fence, where } = rows;
  const sql = new Text(dialect);
  const row = { ...change.set, ...where, [fence]: token };
  const columns = Object.keys(row).map((column) => sql.name(column));
  const values = Object.values(row).map((value) => sql.value(value));
  const text = `INSERT INTO ${sql.name(table)} (${columns.join(', ')}) VALUES (${values.join(', ')})`;
  return sql.statement(text, change.returning);
}

/** Inserts the row, or updates it if it has seen no larger token: one statement. `where` must be a unique index. */
export function fencedUpsert(rows: FencedRows, token: number, change: FencedChange = {}): SqlStatement {
  checkWrite(rows, change);
  const sql = new Text(rows.dialect);
  const columns = [...Object.keys(change.set ?? {}), rows.fence].map((column) => sql.name(column));
  const set = columns.map((column) => `${column} = excluded.${column}`).join(', ');
  const target = Object.keys(rows.where).map((column) => sql.name(column));
  const { sql: insert, parameters } = fencedInsert(rows, token, { ...(change.set && { set: change.set }) });
  const fence = sql.name(rows.fence);
  const fresh = `${sql.name(rows.table)}.${fence} <= excluded.${fence}`;
  const text = `${insert} ON CONFLICT (${target.join(', ')}) DO UPDATE SET ${set} WHERE ${fresh}`;
  return { sql: text + returning(change.returning), parameters };
}

/**
 * The largest token that the rows have seen, as `seen`: `null` when there is no such row. `unfenced` is the number of
 * rows whose fence is `NULL`, which no comparison ever passes.
 */
export function tokenSeen({ dialect, table, fence, where }: FencedRows): SqlStatement {
  const sql = new Text(dialect);
  const named = sql.pairs(where, ' AND ');
  // Inside a transaction MySQL would otherwise read an old version of the row.
  const now = dialect === 'mysql' ? ' FOR UPDATE' : '';
  const seen = `MAX(${sql.name(fence)}) AS seen, COUNT(*) - COUNT(${sql.name(fence)}) AS unfenced`;
  return sql.statement(`SELECT ${seen} FROM ${sql.name(table)} WHERE ${named}${now}`);
}

function returning(columns: string | undefined): string {
  return columns === undefined ? '' : ` RETURNING ${columns}`;
}

/** Builds one statement: quotes names, and collects values as parameters in the order of the text. */
class Text {
  private readonly parameters: unknown[] = [];

  constructor(private readonly dialect: SqlDialect) {}

  name(name: string): string {
    const quote = this.dialect === 'mysql' ? '`' : '"';
    const parts = name.split('.');
    // Drivers that put parameters into the text also replace placeholders in quoted names.
    if (parts.includes('') || /[?\0]|\$\d/.test(name)) {
      throw new LockConfigurationError(
        `${JSON.stringify(name)} cannot name a table or a column here: it has an empty part, a NUL, or what some drivers take for a placeholder (? or $1). Rename it.`,
      );
    }
    return parts.map((part) => quote + part.replaceAll(quote, quote + quote) + quote).join('.');
  }

  value(value: unknown): string {
    this.parameters.push(value);
    return this.dialect === 'mysql' ? '?' : `$${this.parameters.length}`;
  }

  pairs(row: SqlRow, between: string): string {
    return Object.entries(row)
      .map(([column, value]) => `${this.name(column)} = ${this.value(value)}`)
      .join(between);
  }

  statement(sql: string, columns?: string): SqlStatement {
    return { sql: sql + returning(columns), parameters: this.parameters };
  }
}
