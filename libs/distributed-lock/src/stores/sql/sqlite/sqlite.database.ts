import { existsSync } from 'node:fs';
import type { Chance } from '../../../time/chance.js';
import type { SqlAccess, SqlDatabaseOptions } from '../sql-options.js';
import type { SqlDatabase, SqlLink } from '../sql-database.js';
import { noTable } from '../lock-table.js';
import { checkPlace } from './database-file.js';
import { DatabaseFiles } from './database-files.js';
import type { Database, NodeSqlite } from './node-sqlite.js';
import { sqliteFailure } from './sqlite.failures.js';
import { closeReplacedLinks, SqliteLink } from './sqlite.link.js';
import { checkTable, ensureTable } from './sqlite.table.js';

/** How long SQLite waits for the file by itself. The event loop stands still meanwhile. */
const BUSY_MS = 10;

/** A file that several processes of one host open. */
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
    if (this.access !== 'create' && !existsSync(file)) throw noTable({ store: 'sqliteStore', table });
    const database = new this.sqlite.DatabaseSync(file);
    try {
      database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`);
      // Checked first, so that the file of an application never gets a log.
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
  /** An absolute path. */
  readonly file: string;
  /** See `SqliteStoreOptions`. */
  readonly synchronous: 'normal' | 'full';
  readonly chance: Chance;
}
