import { documentText, noteText, takenText } from '../../core/document-text.js';
import type { Note } from '../../core/document.js';
import { NO_ROW, type LockRow } from '../sql-row.js';
import { FREE_FOR_MS, sliceOf, UNWRITTEN_FOR_MS, type Scan, type Slice, type SweptRow } from '../slice.js';
import type { Swap, Take } from '../../core/register.js';
import type { SqlWriteReply } from '../sql-database.js';
import type { Database } from './node-sqlite.js';

/**
 * The requests on the rows of one table. For a write the caller has begun a transaction, so that no other process writes
 * meanwhile.
 */
export class SqliteRows {
  private readonly find;
  private readonly write;
  private readonly addNotes;
  private readonly findNext;
  private readonly deleteOne;

  /** @param table quoted @param micros the time of day of this host */
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
    const { name, notes, notAfter } = take;
    const isInTime = this.micros() <= notAfter() * 1000;
    const row = this.rowOf(name);
    const isDone = isInTime && !row?.state;
    if (isDone) this.grant(take, row);
    else if (isInTime && notes.length > 0)
      this.addNotes.run(notes.map((note) => this.stored(note)).join(''), name);
    return { isDone, row: this.read(name) };
  }

  swap({ name, expected, next, lastToken, isExact, notAfter }: Swap): SqlWriteReply {
    const row = this.rowOf(name);
    const isDone =
      row !== undefined &&
      row.version === expected.version &&
      (!isExact || row.notes.length === expected.notesRead) &&
      this.micros() <= notAfter() * 1000;
    if (isDone) {
      const notes = row.notes.slice(expected.notesRead);
      this.put(name, row, { state: documentText(next), last: lastToken, notes });
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
    this.put(name, row, { state: takenText(request), last, notes: '' });
  }

  /** Versions of a name only grow, also when its row was deleted in between. */
  private put(
    name: string,
    before: SqliteRow | undefined,
    { state, last, notes }: Pick<SqliteRow, 'state' | 'last' | 'notes'>,
  ): void {
    const now = this.micros();
    this.write.run(name, Math.max(now, (before?.version ?? 0) + 1), state, last, now, notes);
  }

  private stored(note: Note): string {
    return `${noteText(note)}${this.micros()}],`;
  }
}

interface SqliteRow {
  readonly version: number;
  readonly state: string | null;
  readonly last: number;
  readonly at: number;
  readonly notes: string;
}
