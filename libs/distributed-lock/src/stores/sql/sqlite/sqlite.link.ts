import { randomMs, type Chance } from '../../../time/chance.js';
import type { Clock } from '../../../time/clock.js';
import { quoted } from '../lock-table.js';
import type { Swap, Take } from '../../core/register.js';
import type { Named, SqlLink, SqlWriteReply } from '../sql-database.js';
import type { Scan, Slice } from '../slice.js';
import type { LockRow } from '../sql-row.js';
import { type DatabaseFiles, ReplacedError } from './database-files.js';
import type { Database } from './node-sqlite.js';
import { isBusy } from './sqlite.failures.js';
import { microsOf } from './sqlite.clock.js';
import { SqliteRows } from './sqlite.rows.js';

/** After the file was busy the next request pauses at random, and the event loop goes on. */
const BUSY_PAUSE_MS = { least: 1, spread: 10 };

/** One connection to the file. It ends when the file, its log or its tables are not those that it has opened. */
export class SqliteLink implements SqlLink {
  readonly opened: SqlLink['opened'];
  private readonly rows: SqliteRows;
  private readonly schemaVersion: () => unknown;
  private readonly openedSchema: unknown;

  constructor(readonly parts: Parts) {
    const { database, table, clock } = parts;
    const micros = microsOf(clock);
    this.rows = new SqliteRows(database, quoted(table, '"'), micros);
    const version = database.prepare('PRAGMA schema_version');
    this.schemaVersion = () => Object.values(version.get() ?? {})[0];
    this.openedSchema = this.schemaVersion();
    this.opened = { now: micros() / 1000, sentAt: clock.now() };
    openLinks.add(this);
  }

  take(takes: readonly Take[]): Promise<readonly SqlWriteReply[]> {
    return this.write(() => takes.map((take) => this.rows.take(take)));
  }

  swap(swaps: readonly Swap[]): Promise<readonly SqlWriteReply[]> {
    return this.write(() => swaps.map((swap) => this.rows.swap(swap)));
  }

  read(items: readonly Named[]): Promise<readonly LockRow[]> {
    return this.run(() => this.checked(() => items.map(({ name }) => this.rows.read(name))));
  }

  scan(scan: Scan): Promise<Slice> {
    return this.run(() => this.checked(() => this.rows.scan(scan)));
  }

  deleteFree(names: readonly string[]): Promise<void> {
    return this.write(() => this.rows.deleteFree(names));
  }

  ping(): Promise<void> {
    return this.run(() => this.checked(() => undefined));
  }

  /**
   * When the last connection to a path closes, SQLite deletes the log at that path. After the file was replaced that log belongs
   * to other processes, and an open reader keeps SQLite from deleting it.
   */
  destroy(): void {
    if (!openLinks.delete(this)) return;
    const { database, files, openReader } = this.parts;
    const reader = files.areReplaced ? orNone(openReader) : undefined;
    database.close();
    reader?.close();
  }

  private write<Result>(work: () => Result): Promise<Result> {
    const { database, files } = this.parts;
    return this.run(() => {
      const result = inTransaction(database, () => this.checked(work));
      files.check(true);
      return result;
    });
  }

  private async run<Result>(work: () => Result): Promise<Result> {
    try {
      if (!openLinks.has(this)) throw new ReplacedError('its log was replaced while it was open', false);
      return work();
    } catch (error) {
      if (isBusy(error)) await this.pause();
      throw error;
    }
  }

  /** @throws ReplacedError before anything is written */
  private checked<Result>(work: () => Result): Result {
    this.parts.files.check(false);
    if (this.schemaVersion() === this.openedSchema) return work();
    throw new ReplacedError('the tables of the file were changed while it was open', false);
  }

  private pause(): Promise<void> {
    const { clock, chance } = this.parts;
    return new Promise((resolve) => clock.after(randomMs(chance, BUSY_PAUSE_MS), resolve));
  }
}

/** The open connections of all services of the process. */
const openLinks = new Set<SqliteLink>();

/**
 * Closes the connections whose file was replaced. As long as one of them is open, SQLite shares the memory of the deleted log
 * with every new connection of the process. An idle connection would notice by its keep-alive only after half a minute.
 */
export function closeReplacedLinks(): void {
  for (const link of openLinks) if (link.parts.files.areReplaced) link.destroy();
}

interface Parts {
  readonly database: Database;
  readonly files: DatabaseFiles;
  readonly table: string;
  readonly clock: Clock;
  readonly chance: Chance;
  /** Opens the same file, to read it only. */
  readonly openReader: () => Database;
}

/** @returns `undefined` if the file is gone, in which case SQLite deletes nothing */
function orNone(open: () => Database): Database | undefined {
  try {
    return open();
  } catch {
    return undefined;
  }
}

/** Locks the file for writing from the start, so that what `work` reads is still true when it writes. */
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

/** Rolls back. After some errors, such as a full disk, SQLite has done so by itself and refuses to do it again. */
function rollBack(database: Database): void {
  try {
    database.exec('ROLLBACK');
  } catch {
    // The first error says what happened.
  }
}
