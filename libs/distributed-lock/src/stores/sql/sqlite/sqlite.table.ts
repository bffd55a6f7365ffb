import { noLockTable, noTable, quoted } from '../lock-table.js';
import type { Database } from './node-sqlite.js';

const COLUMNS = `(
  name TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  state TEXT,
  last INTEGER NOT NULL,
  at INTEGER NOT NULL,
  notes TEXT NOT NULL
) WITHOUT ROWID`;

interface SchemaObject {
  readonly type: string;
  readonly name: string;
  readonly sql: string | null;
}

/**
 * Makes the table if it is missing.
 *
 * @throws LockConfigurationError for a table that another program has made or changed
 */
export function ensureTable(database: Database, table: string): void {
  database.exec(sqlOf(table));
  checkTable(database, table);
}

/** @throws LockConfigurationError if there is no such table, or another program has made or changed it */
export function checkTable(database: Database, table: string): void {
  const objects = objectsOf(database, table);
  if (objects.length === 0) throw noTable({ store: 'sqliteStore', table });
  const faults = objects.flatMap(faultsOf);
  if (faults.length > 0) throw noLockTable(faults, { store: 'sqliteStore', table, sql: sqlOf(table) });
}

function sqlOf(table: string): string {
  return `CREATE TABLE IF NOT EXISTS ${quoted(table, '"')} ${COLUMNS}`;
}

/** The table, its indexes and its triggers, as SQLite lists them. */
function objectsOf(database: Database, table: string): readonly SchemaObject[] {
  const [name, schema = 'main'] = table.split('.').reverse() as [string, string?];
  const found = database.prepare(
    `SELECT type, name, sql FROM ${quoted(schema, '"')}.sqlite_schema WHERE lower(tbl_name) = lower(?)`,
  );
  return found.all(name) as SchemaObject[];
}

function faultsOf({ type, name, sql }: SchemaObject): readonly string[] {
  switch (type) {
    case 'table':
      return bodyOf(sql) === bodyOf(COLUMNS) ? [] : ['it was made by another statement'];
    case 'index':
      // INSERT OR REPLACE would delete the rows of other keys.
      return /^CREATE UNIQUE/i.test(sql ?? '')
        ? [`its unique index ${name} refuses rows of different keys`]
        : [];
    default:
      return [type === 'view' ? 'it is a view' : `it has the ${type} ${name}`];
  }
}

function bodyOf(sql: string | null): string {
  return (sql ?? '').slice(sql?.indexOf('(')).replaceAll(/\s+/g, ' ');
}
