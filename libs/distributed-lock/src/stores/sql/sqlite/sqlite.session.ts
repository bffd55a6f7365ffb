import { randomMs, type Chance } from '../../../time/chance.js';
import type { Clock } from '../../../time/clock.js';
import { quoted } from '../lock-table.js';
import type { SqlLink } from '../sql-connection.js';
import type { Item, Reply, SqlSwap, SqlTake, SqlRequestKind } from '../sql-requests.js';
import { type DatabaseFiles, ReplacedError } from './database-files.js';
import type { Database } from './node-sqlite.js';
import { isBusy } from './sqlite.failures.js';
import { microsOf } from './sqlite.clock.js';
import { SqliteRows } from './sqlite.rows.js';

interface Parts {
  readonly database: Database;
  readonly files: DatabaseFiles;
  readonly table: string;
  readonly clock: Clock;
  readonly chance: Chance;
  /** Opens the same file, to read it only. */
  readonly openReader: () => Database;
}

/** The next request waits at random after the file was busy, and the event loop goes on. */
const BUSY_PAUSE_MS = { least: 1, spread: 10 };

/** One connection to the file. It ends when the file, its log or its tables are not those that it has opened. */
export class SqliteLink implements SqlLink {
  readonly opened: SqlLink['opened'];
  private readonly rows: SqliteRows;
  private readonly schemaVersion: () => unknown;
  private readonly openedSchema: unknown;

  constructor(private readonly parts: Parts) {
    const { database, table, clock } = parts;
    const micros = microsOf(clock);
    this.rows = new SqliteRows(database, quoted(table, '"'), micros);
    const version = database.prepare('PRAGMA schema_version');
    this.schemaVersion = () => Object.values(version.get() ?? {})[0];
    this.openedSchema = this.schemaVersion();
    this.opened = { now: micros() / 1000, sentAt: clock.now() };
  }

  async execute<Kind extends SqlRequestKind>(
    kind: Kind,
    items: readonly Item<Kind>[],
  ): Promise<readonly Reply<Kind>[]> {
    const { database, files } = this.parts;
    const work = () => {
      this.check();
      return items.map((item) => stepOn(this.rows, kind, item)) as readonly Reply<Kind>[];
    };
    try {
      if (kind === 'read' || kind === 'scan' || kind === 'ping') return work();
      const replies = inTransaction(database, work);
      files.check(true);
      return replies;
    } catch (error) {
      if (isBusy(error)) await this.pause();
      throw error;
    }
  }

  /** SQLite deletes the log at a path when its last user closes. A reader keeps it from deleting the log of others there. */
  destroy(): void {
    const { database, files, openReader } = this.parts;
    const reader = files.areReplaced ? orNone(openReader) : undefined;
    database.close();
    reader?.close();
  }

  /** @throws ReplacedError before anything is written */
  private check(): void {
    this.parts.files.check(false);
    if (this.schemaVersion() === this.openedSchema) return;
    throw new ReplacedError('the tables of the file were changed while it was open', false);
  }

  private pause(): Promise<void> {
    const { clock, chance } = this.parts;
    return new Promise((resolve) => clock.after(randomMs(chance, BUSY_PAUSE_MS), resolve));
  }
}

/** There is none if the file is gone. Then SQLite deletes nothing. */
function orNone(open: () => Database): Database | undefined {
  try {
    return open();
  } catch {
    return undefined;
  }
}

function stepOn(rows: SqliteRows, kind: SqlRequestKind, item: Item<SqlRequestKind>): unknown {
  switch (kind) {
    case 'take':
      return rows.take(item as SqlTake);
    case 'swap':
      return rows.swap(item as SqlSwap);
    case 'read':
      return { isDone: true, row: rows.read(item.name) };
    case 'scan':
      return rows.scan(item as Item<'scan'>);
    case 'deleteFree':
      return rows.deleteFree((item as Item<'deleteFree'>).names);
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
