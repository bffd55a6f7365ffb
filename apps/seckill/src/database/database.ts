export type Row = Record<string, unknown>;

/** What the app needs of its database. Each call is one statement, and so one transaction of its own. */
export abstract class Database {
  /** Parameters are `$1`, `$2`, …; the caller says what the rows look like. */
  abstract query<T extends Row>(sql: string, parameters?: readonly unknown[]): Promise<readonly T[]>;
  abstract close(): Promise<void>;
}

/** The code that Postgres gives to a row which a unique constraint refuses. */
const UNIQUE_VIOLATION = '23505';

export function isUniqueViolation(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === UNIQUE_VIOLATION;
}
