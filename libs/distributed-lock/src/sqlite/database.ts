import { existsSync } from 'node:fs';
import type { Chance } from '../common/clock.js';
import type { SqlDatabase, SqlLink } from '../sql/database.js';
import type { SqlAccess, SqlDatabaseOptions } from '../sql/lock-table.js';
import { otherTableError, missingTableError, quoted } from '../sql/lock-table.js';
import { checkPlace, DatabaseFiles } from './database-file.js';
import { closeReplacedLinks, type Database, type NodeSqlite, sqliteFailure, SqliteLink } from './link.js';

/** How long SQLite itself may wait for a locked file, in ms. Short, because it blocks the event loop meanwhile. */
const BUSY_MS = 10;

/** A database file that several processes of one host share. */
export class SqliteDatabase implements SqlDatabase {
  readonly server = 'SQLite';
  readonly access: SqlAccess;
  readonly failureOf = sqliteFailure;

  constructor(
    private readonly sqlite: NodeSqlite,
    private readonly options: SqliteOptions,
  ) {
    this.access = options.access;
  }

  async open(): Promise<SqlLink> {
    const { file, table, synchronous, clock, chance } = this.options;
    checkPlace(file);
    closeReplacedLinks();
    if (this.access !== 'create' && !existsSync(file))
      throw missingTableError({ store: 'sqliteStore', table });
    const database = new this.sqlite.DatabaseSync(file);
    try {
      database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`);
      // Check this before SQLite adds a write-ahead log to the file: if it is the application's own database, given by mistake, it
      // must stay unchanged.
      if (this.access !== 'create') checkTable(database, table);
      database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}`);
      if (this.access === 'create') ensureTable(database, table);
      const files = new DatabaseFiles(file);
      files.checkMemory();
      const openReader = (): Database => this.openReader();
      return new SqliteLink({ database, files, table, clock, chance, openReader });
    } catch (error) {
      database.close();
      throw error;
    }
  }

  private openReader(): Database {
    const reader = new this.sqlite.DatabaseSync(this.options.file, { readOnly: true });
    reader.prepare('SELECT 1 FROM sqlite_schema').get();
    return reader;
  }
}

interface SqliteOptions extends SqlDatabaseOptions {
  /** An absolute path: the process may change its working directory. */
  readonly file: string;
  /** See `SqliteStoreOptions`. */
  readonly synchronous: 'normal' | 'full';
  readonly chance: Chance;
}

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
 * Creates the table if it is missing.
 *
 * @throws LockConfigurationError if another program has created or changed the table
 */
function ensureTable(database: Database, table: string): void {
  database.exec(sqlOf(table));
  checkTable(database, table);
}

/** @throws LockConfigurationError if there is no such table, or another program has created or changed it */
function checkTable(database: Database, table: string): void {
  const objects = objectsOf(database, table);
  if (objects.length === 0) throw missingTableError({ store: 'sqliteStore', table });
  const faults = objects.flatMap(faultsOf);
  if (faults.length > 0) throw otherTableError(faults, { store: 'sqliteStore', table, sql: sqlOf(table) });
}

function sqlOf(table: string): string {
  return `CREATE TABLE IF NOT EXISTS ${quoted(table, '"')} ${COLUMNS}`;
}

/** The table with its indexes and triggers, from SQLite's own catalogue. */
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
      // The store writes by INSERT OR REPLACE. With this index, a write would delete rows of other keys that have the same values.
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
