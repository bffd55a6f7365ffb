import { type Chance, type Clock, randomMs } from '../common/clock.js';
import { textOf } from '../connection/connection-errors.js';
import type { Note } from '../document/document.js';
import { serializeDocument, serializeNote, serializeFirstGrant } from '../document/json.js';
import type { Swap, Take } from '../document/timed-register.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { Named, SqlFailure, SqlLink, SqlWriteReply } from '../sql/database.js';
import {
  FREE_FOR_MS,
  type LockRow,
  NO_ROW,
  type Scan,
  type Slice,
  sliceOf,
  type SweptRow,
  UNWRITTEN_FOR_MS,
} from '../sql/database.js';
import { quoted } from '../sql/lock-table.js';
import { microsecondsOf } from './clock.js';
import { type DatabaseFiles, ReplacedError } from './database-file.js';

/**
 * How long the next request waits, at random, in ms, after another process had the file locked. Unlike SQLite's own wait, this one
 * does not block the event loop.
 */
const BUSY_PAUSE_MS = { least: 1, spread: 10 };

/** One connection to the file. Refuses further requests as soon as the file, its log or its tables were replaced since it was opened. */
export class SqliteLink implements SqlLink {
  readonly opened: SqlLink['opened'];
  private readonly rows: SqliteRows;
  private readonly schemaVersion: () => unknown;
  private readonly openedSchema: unknown;

  constructor(readonly parts: Parts) {
    const { database, table, clock } = parts;
    const micros = microsecondsOf(clock);
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
   * Closes the connection. When the last connection to a database closes, SQLite deletes the log at its path. If the file was
   * replaced, the log there belongs to other processes. So open a reader first and close it last, which keeps SQLite from deleting
   * that log.
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

  /**
   * Runs `work` if the file and its tables are still the ones that were opened.
   *
   * @throws ReplacedError otherwise, before anything is written
   */
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

/** The open connections of all lock services in this process. */
const openLinks = new Set<SqliteLink>();

/**
 * Closes all connections of this process whose file was replaced. While one of them is open, SQLite gives each new connection the
 * shared memory of the deleted log. An idle one would notice the replacement only at its next keep-alive, up to half a minute
 * later.
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
  /** Opens the same file for reading only. */
  readonly openReader: () => Database;
}

/** @returns `undefined` if the file is gone: SQLite then has no log that it could delete */
function orNone(open: () => Database): Database | undefined {
  try {
    return open();
  } catch {
    return undefined;
  }
}

/**
 * Runs `work` in a transaction that locks the file for writing from the start. So nobody changes between a read and a write what
 * `work` has read.
 */
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

/**
 * Rolls the transaction back. After some errors, for example on a full disk, SQLite has already done so, and this second rollback
 * fails.
 */
function rollBack(database: Database): void {
  try {
    database.exec('ROLLBACK');
  } catch {
    // Ignore the error of the rollback: the caller gets the one that made it necessary.
  }
}

/**
 * Executes requests on the rows of one table. Before a write, the caller must begin a transaction, so that no other process writes
 * meanwhile.
 */
class SqliteRows {
  private readonly find;
  private readonly write;
  private readonly addNotes;
  private readonly findNext;
  private readonly deleteOne;

  /** @param table the name in quotes @param micros returns the time of day of this host in microseconds */
  constructor(
    database: Database,
    table: string,
    private readonly micros: () => number,
  ) {
    this.find = database.prepare(`SELECT version, state, last, at, notes FROM ${table} WHERE name = ?`);
    this.write = database.prepare(`INSERT OR REPLACE INTO ${table} VALUES (?, ?, ?, ?, ?, ?)`);
    this.addNotes = database.prepare(`UPDATE ${table} SET notes = notes || ? WHERE name = ?`);
    this.findNext = database.prepare(
      `SELECT name, state IS NOT NULL AS held, state IS NULL AND at < ? AS free, state IS NOT NULL AND at < ? AS unwritten
       FROM ${table} WHERE name > ? ORDER BY name LIMIT ?`,
    );
    this.deleteOne = database.prepare(`DELETE FROM ${table} WHERE name = ? AND state IS NULL AND at < ?`);
  }

  take(take: Take): SqlWriteReply {
    const { name, notes, deadline } = take;
    const isInTime = this.micros() <= deadline() * 1000;
    const row = this.rowOf(name);
    const isDone = isInTime && !row?.state;
    if (isDone) this.grant(take, row);
    else if (isInTime && notes.length > 0)
      this.addNotes.run(notes.map((note) => this.stored(note)).join(''), name);
    return { isDone, row: this.read(name) };
  }

  swap({ name, expected, next, lastToken, failOnUnreadNotes, deadline }: Swap): SqlWriteReply {
    const row = this.rowOf(name);
    const isDone =
      row !== undefined &&
      row.version === expected.version &&
      (!failOnUnreadNotes || row.notes.length === expected.notesRead) &&
      this.micros() <= deadline() * 1000;
    if (isDone) {
      const notes = row.notes.slice(expected.notesRead);
      this.put(name, row, { state: serializeDocument(next), last: lastToken, notes });
    }
    return { isDone, row: this.read(name) };
  }

  read(name: string): LockRow {
    return { ...NO_ROW, ...this.rowOf(name), now: this.micros() };
  }

  scan({ after, most }: Scan): Slice {
    const now = this.micros();
    const [free, unwritten] = [now - FREE_FOR_MS * 1000, now - UNWRITTEN_FOR_MS * 1000];
    return sliceOf(this.findNext.all(free, unwritten, after, most) as unknown as SweptRow[], most);
  }

  deleteFree(names: readonly string[]): void {
    const limit = this.micros() - FREE_FOR_MS * 1000;
    for (const name of names) this.deleteOne.run(name, limit);
  }

  private rowOf(name: string): SqliteRow | undefined {
    return this.find.get(name) as SqliteRow | undefined;
  }

  private grant({ name, request, minToken }: Take, row: SqliteRow | undefined): void {
    const last = Math.max(row?.last ?? 0, minToken, this.micros()) + request.tokens;
    this.put(name, row, { state: serializeFirstGrant(request), last, notes: '' });
  }

  /** Writes a row. Its new version is at least the time, so that the versions of a name grow even across a deletion of its row. */
  private put(
    name: string,
    before: SqliteRow | undefined,
    { state, last, notes }: Pick<SqliteRow, 'state' | 'last' | 'notes'>,
  ): void {
    const now = this.micros();
    this.write.run(name, Math.max(now, (before?.version ?? 0) + 1), state, last, now, notes);
  }

  private stored(note: Note): string {
    return `${serializeNote(note)}${this.micros()}],`;
  }
}

interface SqliteRow {
  readonly version: number;
  readonly state: string | null;
  readonly last: number;
  readonly at: number;
  readonly notes: string;
}

/** The parts of `node:sqlite` that the store uses. Our own type, because the types of older releases of Node lack this module. */
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
export function loadNodeSqlite(): NodeSqlite {
  const found = process.getBuiltinModule?.('node:sqlite') as NodeSqlite | undefined;
  if (found) return found;
  throw new LockConfigurationError(
    `sqliteStore needs node:sqlite, which Node has from 22.13 on. This is Node ${process.version}. Update Node. Or take memoryStore() for one process, and redisStore, postgresStore or mysqlStore for several.`,
  );
}

const BUSY = {
  reason: 'unready',
  mayRepeat: true,
  advice: 'Another process holds the file for too long: it is frozen, or has a transaction of its own open',
} as const;
const NO_FILE = {
  reason: 'refused',
  advice: 'The folder must exist, and this process must be allowed to write there',
} as const;
const NO_SPACE = { reason: 'unready', advice: 'The disk is full or broken' } as const;

/** By result code of SQLite: what the error means for the request, and what the user can do about it. */
const FAILURES: Readonly<Record<number, Omit<SqlFailure, 'detail'> & { readonly advice: string }>> = {
  5: BUSY,
  6: BUSY,
  8: NO_FILE,
  10: NO_SPACE,
  13: NO_SPACE,
  14: NO_FILE,
  26: { reason: 'refused', advice: 'Give sqliteStore a file of its own' },
};

/** The primary result code of SQLite: its lowest byte, without the bits of an extended code. 0 for an error that is not SQLite's. */
function codeOf(error: unknown): number {
  return ((error as { readonly errcode?: number } | undefined)?.errcode ?? 0) & 0xff;
}

function isBusy(error: unknown): boolean {
  return FAILURES[codeOf(error)] === BUSY;
}

/**
 * Says what an error means for the request that failed. A failed statement has changed nothing: SQLite or `SqliteLink` has rolled
 * its transaction back.
 */
export function sqliteFailure(error: unknown): SqlFailure {
  const detail = textOf(error);
  if (error instanceof LockConfigurationError) return { reason: 'refused', detail };
  if (error instanceof ReplacedError) {
    return error.wasExecuted
      ? { reason: 'unknown', detail }
      : { reason: 'unready', detail, mayRepeat: true, isFatal: true };
  }
  const { advice, ...failure } = FAILURES[codeOf(error)] ?? { reason: 'refused' as const, mayBeOne: true };
  return { ...failure, detail: advice === undefined ? detail : `${detail}. ${advice}.` };
}
