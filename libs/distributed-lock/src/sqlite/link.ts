import { type Chance, type Clock, randomMs, timeOfDay } from '../common/clock.js';
import { textOf } from '../connection/connection-errors.js';
import { serializeDocument, serializeNote, serializeFirstGrant } from '../document/json.js';
import type { Swap, Take } from '../document/timed-register.js';
import {
  FREE_FOR_MS,
  type LockRow,
  type Named,
  type ScannedRow,
  type SqlFailure,
  type SqlLink,
  type SqlWriteReply,
  UNWRITTEN_FOR_MS,
} from '../sql/database.js';
import type { LockTable } from '../sql/lock-table.js';
import { attempt, type DatabaseFiles, ReplacedError } from './database-file.js';

/** How long requests wait, in ms, when another process has the file locked. Unlike SQLite's own wait, this does not block the loop. */
const BUSY_PAUSE_MS = { least: 1, spread: 10 };

/** One connection to the file. Refuses further requests as soon as the file, its log or its tables were replaced since it was opened. */
export class SqliteLink implements SqlLink {
  /** The open connections of all lock services in this process. */
  private static readonly all = new Set<SqliteLink>();

  readonly opened: SqlLink['opened'];
  private readonly rows: SqliteRows;
  private readonly schemaVersion: () => unknown;
  private readonly openedSchema: unknown;

  /**
   * Closes all connections of this process whose file was replaced. While one of them is open, SQLite gives each new connection
   * the shared memory of the deleted log. An idle one would notice the replacement only at its next keep-alive, up to half a
   * minute later.
   */
  static closeReplaced(): void {
    for (const link of SqliteLink.all) if (link.parts.files.replaced !== undefined) link.destroy();
  }

  constructor(private readonly parts: Parts) {
    const { database, table, clock } = parts;
    const micros = microsecondsOf(clock);
    this.rows = new SqliteRows(database, table.quoted, micros);
    const version = database.prepare('PRAGMA schema_version');
    this.schemaVersion = () => Object.values(version.get() ?? {})[0];
    this.openedSchema = this.schemaVersion();
    this.opened = { now: micros() / 1000, sentAt: clock.now() };
    SqliteLink.all.add(this);
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

  scan(after: string, most: number): Promise<readonly ScannedRow[]> {
    return this.run(() => this.checked(() => this.rows.scan(after, most)));
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
   * that log. If the reader cannot be opened, the file is gone, and there is no log to delete.
   */
  destroy(): void {
    if (!SqliteLink.all.delete(this)) return;
    const { database, files, openReader } = this.parts;
    const reader = files.replaced === undefined ? undefined : attempt(openReader);
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
      if (!SqliteLink.all.has(this)) throw new ReplacedError('its log was replaced while it was open', false);
      return work();
    } catch (error) {
      const { clock, chance } = this.parts;
      if (isBusy(error))
        await new Promise<void>((resolve) => clock.after(randomMs(chance, BUSY_PAUSE_MS), resolve));
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
}

/**
 * Returns the time of day of this host in microseconds. `timeOfDay` has only milliseconds, so the last three digits come from this
 * process's own clock, to keep its requests in order. If somebody sets the host's clock, they may be 000 or 999 from then on.
 */
function microsecondsOf(clock: Clock): () => number {
  const startedAt = performance.timeOrigin + performance.now() - clock.now();
  return () => {
    const ms = timeOfDay(clock);
    const within = Math.floor((startedAt + clock.now() - ms) * 1000);
    return ms * 1000 + Math.min(999, Math.max(0, within));
  };
}

interface Parts {
  readonly database: Database;
  readonly files: DatabaseFiles;
  readonly table: LockTable;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly openReader: () => Database;
}

/** Runs `work` in a transaction that locks the file for writing from the start, so that nobody changes what `work` has read. */
function inTransaction<Result>(database: Database, work: () => Result): Result {
  database.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    // After some errors, for example on a full disk, SQLite has already rolled back, and then this fails.
    attempt(() => database.exec('ROLLBACK'));
    throw error;
  }
}

/** Executes requests on the rows of one table. Before a write, the caller must begin a transaction. */
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

  take({ name, request, minToken, notes, deadline }: Take): SqlWriteReply {
    const isInTime = this.micros() <= deadline() * 1000;
    const row = this.rowOf(name);
    const isDone = isInTime && !row?.state;
    if (isDone) {
      const last = Math.max(row?.last ?? 0, minToken, this.micros()) + request.tokens;
      this.put(name, row, { state: serializeFirstGrant(request), last, notes: '' });
    } else if (isInTime && notes.length > 0) {
      this.addNotes.run(notes.map((note) => `${serializeNote(note)}${this.micros()}],`).join(''), name);
    }
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
    return { ...this.rowOf(name), now: this.micros() };
  }

  scan(after: string, most: number): readonly ScannedRow[] {
    const now = this.micros();
    const [free, unwritten] = [now - FREE_FOR_MS * 1000, now - UNWRITTEN_FOR_MS * 1000];
    return this.findNext.all(free, unwritten, after, most) as unknown as ScannedRow[];
  }

  deleteFree(names: readonly string[]): void {
    const limit = this.micros() - FREE_FOR_MS * 1000;
    for (const name of names) this.deleteOne.run(name, limit);
  }

  private rowOf(name: string): SqliteRow | undefined {
    return this.find.get(name) as SqliteRow | undefined;
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
}

interface SqliteRow {
  readonly version: number;
  readonly state: string | null;
  readonly last: number;
  readonly at: number;
  readonly notes: string;
}

/** The parts of a connection of `node:sqlite` that the store uses. */
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

const BUSY = {
  reason: 'unready',
  mayRepeat: true,
  advice: 'Another process holds the file for too long: it is frozen, or has a transaction of its own open',
} as const;
const NO_FILE = 'The folder must exist, and this process must be allowed to write there';
const NO_SPACE = { reason: 'unready', advice: 'The disk is full or broken' } as const;

/** By result code of SQLite: what the error means for the request, and what the user can do about it. */
const FAILURES: Readonly<Record<number, Omit<SqlFailure, 'detail'> & { readonly advice: string }>> = {
  5: BUSY,
  6: BUSY,
  8: { reason: 'refused', advice: NO_FILE },
  10: NO_SPACE,
  13: NO_SPACE,
  14: { reason: 'refused', advice: NO_FILE },
  26: { reason: 'refused', advice: 'Give sqliteStore a file of its own' },
};

/** The primary result code of SQLite, which is the lowest byte of the extended one. 0 for an error that is not SQLite's. */
function codeOf(error: unknown): number {
  return ((error as { readonly errcode?: number } | undefined)?.errcode ?? 0) & 0xff;
}

function isBusy(error: unknown): boolean {
  return FAILURES[codeOf(error)] === BUSY;
}

/** A failed statement has changed nothing: SQLite or `SqliteLink` has rolled its transaction back. */
export function sqliteFailure(error: unknown): SqlFailure {
  const detail = textOf(error);
  if (error instanceof ReplacedError) {
    return error.wasExecuted
      ? { reason: 'unknown', detail }
      : { reason: 'unready', detail, mayRepeat: true, isFatal: true };
  }
  const { advice, ...failure } = FAILURES[codeOf(error)] ?? { reason: 'refused' as const, mayBeOne: true };
  return { ...failure, detail: advice === undefined ? detail : `${detail}. ${advice}.` };
}
