import { fetchRuntime } from '../../../../tools/runtimes/index.mjs';

/** This Node if it has SQLite. */
export function nodeWithSqlite(): string | undefined {
  const hasSqlite = process.getBuiltinModule?.('node:sqlite') as object | undefined;
  return hasSqlite ? process.execPath : fetchRuntime('Node 22');
}
