import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { LockStoreFactory } from '../port/lock-store.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { RULE } from '../port/option-checks.js';
import type { SqlDatabase, SqlLink } from '../sql/database.js';
import { type LockTable, quoted } from '../sql/lock-table.js';
import { SqlRegister } from '../sql/register.js';
import { SQL_OPTION_RULES, type SqlContext, sqlStore, type SqlStoreOptions } from '../sql/store.js';
import { checkFile, checkPlace, DatabaseFiles } from './database-file.js';
import { type Database, sqliteFailure, SqliteLink } from './link.js';

/**
 * Locks in a SQLite file, shared by several processes of one host. Needs no server, but Node 22.13 or later.
 *
 * Give the locks a file of their own. While a process has the file open, nothing in that process may open and close it but
 * `node:sqlite`: no other SQLite library, and no code that copies the file. When such code closes the file, the operating system
 * drops SQLite's own locks on it.
 *
 * @param file its path. The file is created if there is none
 * @throws LockConfigurationError on an older Node, for a database in memory, and for options out of range
 * @example
 * ```ts
 * import { DistributedLockModule } from 'nestjs-distributed-lock';
 * import { sqliteStore } from 'nestjs-distributed-lock/sqlite';
 *
 * DistributedLockModule.forRoot({ store: sqliteStore('/var/lib/shop/locks.db') });
 * ```
 */
export function sqliteStore(file: string, options: SqliteStoreOptions = {}): LockStoreFactory {
  checkFile(file);
  const sqlite = loadNodeSqlite();
  // Resolve the path now, because a process may change its working directory.
  const path = resolve(file);
  const { synchronous = 'normal' } = options;
  return sqlStore({
    name: 'sqlite',
    options,
    rules: { ...SQL_OPTION_RULES, synchronous: RULE.oneOf('normal', 'full') },
    open: (context) => {
      const database = new SqliteDatabase(sqlite, { ...context, file: path, synchronous });
      return new SqlRegister(database, { ...context, address: file });
    },
  });
}

/** Options of `sqliteStore`. Times are in ms. */
export interface SqliteStoreOptions extends SqlStoreOptions {
  /**
   * `normal`, the default: a power failure may undo the last writes, and with them locks that are held. `full`: each write waits
   * until it is on disk. If only a process crashes, nothing is undone in either case.
   */
  readonly synchronous?: 'normal' | 'full';
}

/** The parts of `node:sqlite` that the store uses. Our own type, because the types of older releases of Node lack this module. */
interface NodeSqlite {
  readonly DatabaseSync: new (file: string, options?: { readonly readOnly: boolean }) => Database;
}

/** @throws LockConfigurationError on a Node without SQLite */
function loadNodeSqlite(): NodeSqlite {
  const found = process.getBuiltinModule?.('node:sqlite') as NodeSqlite | undefined;
  if (found) return found;
  throw new LockConfigurationError(
    `sqliteStore needs node:sqlite, which Node has from 22.13 on. This is Node ${process.version}. Update Node. Or take memoryStore() for one process, and redisStore, postgresStore or mysqlStore for several.`,
  );
}

/** How long SQLite itself may wait for a locked file, in ms. Short, because it blocks the event loop meanwhile. */
const BUSY_MS = 10;

/** A database file that several processes of one host share. */
class SqliteDatabase implements SqlDatabase {
  readonly server = 'SQLite';
  readonly failureOf = sqliteFailure;

  constructor(
    private readonly sqlite: NodeSqlite,
    private readonly options: SqlContext & { readonly file: string; readonly synchronous: string },
  ) {}

  async open(): Promise<SqlLink> {
    const { file, table, access, synchronous } = this.options;
    checkPlace(file);
    SqliteLink.closeReplaced();
    if (access !== 'create' && !existsSync(file)) throw table.missingError();
    const database = new this.sqlite.DatabaseSync(file);
    try {
      database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`);
      // Check this before SQLite adds a write-ahead log to the file: if it is the application's own database, given by mistake, it
      // must stay unchanged.
      if (access !== 'create') checkTable(database, table);
      database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}`);
      if (access === 'create') {
        database.exec(table.sql);
        checkTable(database, table);
      }
      const files = new DatabaseFiles(file);
      files.checkMemory();
      const openReader = (): Database => this.openReader();
      return new SqliteLink({ ...this.options, database, files, openReader });
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

/** @throws LockConfigurationError if there is no such table, or another program has created or changed it */
function checkTable(database: Database, table: LockTable): void {
  const [name, schema = 'main'] = table.name.split('.').reverse() as [string, string?];
  // The table with its indexes and triggers, from SQLite's own catalogue.
  const objects = database
    .prepare(
      `SELECT type, name, sql FROM ${quoted(schema, '"')}.sqlite_schema WHERE lower(tbl_name) = lower(?)`,
    )
    .all(name) as SchemaObject[];
  if (objects.length === 0) throw table.missingError();
  table.throwFaults(objects.flatMap((object) => faultsOf(object, table)));
}

type SchemaObject = Readonly<Record<'type' | 'name', string> & Record<'sql', string | null>>;

function faultsOf({ type, name, sql }: SchemaObject, table: LockTable): readonly string[] {
  switch (type) {
    case 'table':
      return bodyOf(sql) === bodyOf(table.sql) ? [] : ['it was made by another statement'];
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
