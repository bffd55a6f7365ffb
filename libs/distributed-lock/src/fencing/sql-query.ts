import { LockConfigurationError } from '../port/lock.errors.js';

/**
 * Runs one statement on the connection of a transaction, and returns its rows. docs/recipes/sql.md#held-until-the-commit has
 * it for pg and mysql2, docs/recipes/orms.md for each ORM.
 *
 * @param sql with `$1`, `$2`, … in the order of `parameters`, each once; `?` for MySQL
 */
export type SqlQuery = (sql: string, parameters: unknown[]) => Promise<SqlAnswer>;

/** The database of the transaction: PostgreSQL, or MySQL and MariaDB. */
export type SqlDialect = 'postgres' | 'mysql';

/** Values by the names of their columns. */
export type SqlRow = Readonly<Record<string, unknown>>;

/** The result of a query function: the rows as objects, alone or under `rows`, as most drivers give them. */
export type SqlAnswer = readonly SqlRow[] | { readonly rows: readonly SqlRow[] };

/** @throws LockConfigurationError for a result that is no list of rows */
export function rowsOf(answer: unknown, table: string): readonly SqlRow[] {
  const { rows } = (Array.isArray(answer) ? { rows: answer } : (answer ?? {})) as { rows?: unknown };
  if (!Array.isArray(rows) || !rows.every(isRow)) throw unusable(table, `answered ${shapeOf(answer)}`);
  return rows as readonly SqlRow[];
}

export function unusable(table: string, what: string): LockConfigurationError {
  return new LockConfigurationError(
    `The query function of the table ${table} ${what}. It must answer the rows as objects, alone or as { rows }. The statement has been sent: roll back its transaction.`,
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
