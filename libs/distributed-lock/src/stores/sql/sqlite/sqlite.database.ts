import type { Clock } from '../../../time/clock.js';
import { quoted } from '../lock-table.js';
import type { SqlDatabase, SqlSession } from '../sql-connection.js';
import type { Item, Reply, SqlSwap, SqlTake, StepKind } from '../steps.js';
import { checkFileSystem } from './database-file.js';
import type { Database, NodeSqlite } from './node-sqlite.js';
import { isBusy, sqliteFailure } from './sqlite.failures.js';
import { micros, SqliteRows } from './sqlite.rows.js';

export interface SqliteOptions {
  readonly file: string;
  readonly table: string;
  /** See `SqliteStoreOptions`. */
  readonly synchronous: 'normal' | 'full';
  readonly clock: Clock;
}

/** How long SQLite waits for the file by itself. The event loop stands still meanwhile. */
const BUSY_MS = 10;
/** Then the next step waits at random, and the event loop goes on. */
const BUSY_PAUSE_MS = { least: 1, spread: 10 };

/** A file that several processes of one host open. */
export class SqliteDatabase implements SqlDatabase {
  readonly server = 'SQLite';
  readonly failureOf = sqliteFailure;

  constructor(
    private readonly sqlite: NodeSqlite,
    private readonly options: SqliteOptions,
  ) {}

  async open(): Promise<SqlSession> {
    const { file, table, synchronous, clock } = this.options;
    checkFileSystem(file);
    const database = new this.sqlite.DatabaseSync(file);
    try {
      database.exec(
        `PRAGMA busy_timeout = ${BUSY_MS}; PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}`,
      );
      const rows = new SqliteRows(database, quoted(table, '"'));
      return {
        opened: { now: micros() / 1000, sentAt: clock.now() },
        execute: (kind, items) => this.execute(database, rows, kind, items),
        destroy: () => database.close(),
      };
    } catch (error) {
      database.close();
      throw error;
    }
  }

  private async execute<Kind extends StepKind>(
    database: Database,
    rows: SqliteRows,
    kind: Kind,
    items: readonly Item<Kind>[],
  ): Promise<readonly Reply<Kind>[]> {
    try {
      const work = () => items.map((item) => stepOn(rows, kind, item)) as readonly Reply<Kind>[];
      return kind === 'read' || kind === 'ping' ? work() : inTransaction(database, work);
    } catch (error) {
      if (isBusy(error)) await this.pause();
      throw error;
    }
  }

  private pause(): Promise<void> {
    const ms = BUSY_PAUSE_MS.least + Math.random() * BUSY_PAUSE_MS.spread;
    return new Promise((resolve) => this.options.clock.after(ms, resolve));
  }
}

function stepOn(rows: SqliteRows, kind: StepKind, item: Item<StepKind>): unknown {
  switch (kind) {
    case 'take':
      return rows.take(item as SqlTake);
    case 'swap':
      return rows.swap(item as SqlSwap);
    case 'read':
      return { isDone: true, row: rows.read(item.name) };
    case 'takeAll':
      return rows.takeAll((item as Item<'takeAll'>).takes);
    case 'sweep':
      return rows.sweep((item as Item<'sweep'>).after);
    case 'ping':
      return undefined;
  }
}

/** The file is locked for writing from the start, so that what was read is still true when it is written. */
function inTransaction<Result>(database: Database, work: () => Result): Result {
  database.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    rollBack(database);
    throw error;
  }
}

/** After some errors, as of a full disk, SQLite has rolled back by itself and refuses to do it again. */
function rollBack(database: Database): void {
  try {
    database.exec('ROLLBACK');
  } catch {
    // The first error says what happened.
  }
}
