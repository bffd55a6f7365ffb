import { describeGiven } from '../options/describe-given.js';
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
  if (!Array.isArray(rows)) throw unusable(table, `answered ${describeGiven(answer)} without a list of rows`);
  for (const row of rows as readonly unknown[]) {
    if (typeof row === 'object' && row !== null && !Array.isArray(row)) continue;
    throw unusable(table, `answered ${describeGiven(row)} as a row`);
  }
  return rows as readonly SqlRow[];
}

export function unusable(table: string, what: string): LockConfigurationError {
  return new LockConfigurationError(
    `The query function of the table ${table} ${what}. It must answer the rows as objects, alone or as { rows }. The statement has been sent: roll back its transaction.`,
  );
}
