import { LockConfigurationError } from '../../../port/lock.errors.js';

/** The members of `node:sqlite` that the store uses. The types of older releases of Node do not have them. */
export interface NodeSqlite {
  readonly DatabaseSync: new (file: string, options?: { readonly readOnly: boolean }) => Database;
}

export interface Database {
  exec(sql: string): void;
  prepare(sql: string): PreparedStatement;
  close(): void;
}

interface PreparedStatement {
  get(...parameters: readonly (string | number | null)[]): object | undefined;
  all(...parameters: readonly (string | number | null)[]): object[];
  run(...parameters: readonly (string | number | null)[]): { readonly changes: number | bigint };
}

/** @throws LockConfigurationError on a Node without SQLite */
export function nodeSqlite(): NodeSqlite {
  const found = process.getBuiltinModule?.('node:sqlite') as NodeSqlite | undefined;
  if (found) return found;
  throw new LockConfigurationError(
    `sqliteStore needs node:sqlite, which Node has from 22.13 on. This is Node ${process.version}. Update Node. Or take memoryStore() for one process, and redisStore, postgresStore or mysqlStore for several.`,
  );
}
