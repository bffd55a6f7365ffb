import { LockConfigurationError } from '../port/lock.errors.js';
import type { SqlRow } from './fenced-sql.js';

/** The rows that a statement of a `FencedTable` has matched or written. */
export interface SqlResult {
  /** The rows that `RETURNING` has given; none in MySQL. */
  readonly rows: readonly SqlRow[];
  /** How many rows were matched. */
  readonly changed: number;
}

/**
 * The result of a query function: the rows as objects, alone or under `rows`, as most drivers give them.
 *
 * Where there is no `RETURNING`, as in MySQL, a write has no rows, and `changed` is the number of rows that it matched.
 * Clients of MySQL must count all rows that matched, as mysql2 does, not only those in which a value changed.
 */
export type SqlAnswer = readonly SqlRow[] | { readonly rows: readonly SqlRow[]; readonly changed?: number };

/**
 * Reads the result of a query function. Without `changed`, as many rows have changed as came back, unless the result
 * `mustCount`.
 *
 * @throws LockConfigurationError for any other result, because a refused write must not pass for one that was done
 */
export function resultOf(answer: unknown, table: string, { mustCount = false } = {}): SqlResult {
  const { rows, changed } = (Array.isArray(answer) ? { rows: answer } : (answer ?? {})) as Partial<SqlResult>;
  if (!Array.isArray(rows) || !rows.every(isRow)) throw unusable(table, `answered ${shapeOf(answer)}`);
  if (changed === undefined && mustCount) throw unusable(table, 'did not say how many rows a write has met');
  if (changed === undefined) return { rows, changed: rows.length };
  if (!Number.isSafeInteger(changed) || changed < 0) {
    throw unusable(table, `said that it changed ${String(changed)} (${typeof changed}) rows`);
  }
  return { rows, changed };
}

export function unusable(table: string, what: string): LockConfigurationError {
  return new LockConfigurationError(
    `The query function of the table ${table} ${what}. It must answer the rows as objects, alone or as { rows }, and the number of rows as { rows, changed } where there is no RETURNING. The statement has been sent: roll back its transaction.`,
  );
}

function isRow(row: unknown): boolean {
  return typeof row === 'object' && row !== null && !Array.isArray(row);
}

/** Types instead of values, which may be secret. */
function shapeOf(answer: unknown): string {
  if (Array.isArray(answer)) return `[${answer.slice(0, 3).map(kindOf).join(', ')}]`;
  if (!isRow(answer)) return kindOf(answer);
  const fields = Object.entries(answer as object).slice(0, 6);
  return `{ ${fields.map(([name, value]) => `${name}: ${kindOf(value)}`).join(', ')} }`;
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}
