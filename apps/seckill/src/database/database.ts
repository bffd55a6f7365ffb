export type Row = Record<string, unknown>;

/** The database as the app uses it. Each call is one statement, and so one transaction of its own. */
export abstract class Database {
  /** Parameters are `$1`, `$2`, …; the caller names the type of the rows. */
  abstract query<T extends Row>(sql: string, parameters?: readonly unknown[]): Promise<readonly T[]>;
  abstract close(): Promise<void>;
}

/** The codes that Postgres gives to a row which a constraint refuses. */
const NOT_NULL_VIOLATION = '23502';
const UNIQUE_VIOLATION = '23505';

export function isUniqueViolation(error: unknown): boolean {
  return hasCode(error, UNIQUE_VIOLATION);
}

export function isNotNullViolation(error: unknown): boolean {
  return hasCode(error, NOT_NULL_VIOLATION);
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
