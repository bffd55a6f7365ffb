import { documentText, noteText, takenText } from '../../document/document-text.js';
import type { Note } from '../../document/document.js';
import type { LockRow } from '../sql-row.js';
import type { SqlSwap, SqlTake, StepReply } from '../steps.js';
import type { Database } from './node-sqlite.js';

/** A row that was free for this long is deleted. Until then its tokens grow, although the clock is set back. */
const FREE_FOR_MICROS = 10 * 60_000_000;
/** Documents that were not written for this long may belong to crashed processes. */
const UNWRITTEN_FOR_MICROS = 60 * 60_000_000;

interface Row {
  readonly version: number;
  readonly state: string | null;
  readonly last: number;
  readonly at: number;
  readonly notes: string;
}

const TABLE = (table: string) => `CREATE TABLE IF NOT EXISTS ${table} (
  name TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  state TEXT,
  last INTEGER NOT NULL,
  at INTEGER NOT NULL,
  notes TEXT NOT NULL
) WITHOUT ROWID`;

/** The steps on the rows of one table. The caller has begun a transaction, so that no other process writes meanwhile. */
export class SqliteRows {
  private readonly find;
  private readonly write;
  private readonly addNotes;
  private readonly deleteFree;
  private readonly findUnwritten;

  /** @param table quoted */
  constructor(database: Database, table: string) {
    database.exec(TABLE(table));
    this.find = database.prepare(`SELECT version, state, last, at, notes FROM ${table} WHERE name = ?`);
    this.write = database.prepare(`INSERT OR REPLACE INTO ${table} VALUES (?, ?, ?, ?, ?, ?)`);
    this.addNotes = database.prepare(`UPDATE ${table} SET notes = notes || ? WHERE name = ?`);
    this.deleteFree = database.prepare(
      `DELETE FROM ${table} WHERE name IN (SELECT name FROM ${table} WHERE state IS NULL AND at < ? LIMIT 1000)`,
    );
    this.findUnwritten = database.prepare(
      `SELECT name FROM ${table} WHERE name > ? AND state IS NOT NULL AND at < ? ORDER BY name LIMIT 100`,
    );
  }

  take(take: SqlTake): StepReply {
    const { name, notes, until } = take;
    const isInTime = micros() <= until() * 1000;
    const row = this.rowOf(name);
    const isDone = isInTime && !row?.state;
    if (isDone) this.grant(take, row);
    else if (isInTime && notes.length > 0) this.addNotes.run(notes.map(stored).join(''), name);
    return { isDone, row: this.read(name) };
  }

  takeAll(takes: readonly SqlTake[]): { readonly isDone: boolean; readonly rows: readonly LockRow[] } {
    const rows = takes.map(({ name }) => this.rowOf(name));
    const isDone = rows.every((row) => !row?.state) && takes.every(({ until }) => micros() <= until() * 1000);
    if (isDone) takes.forEach((take, i) => this.grant(take, rows[i]));
    return { isDone, rows: takes.map(({ name }) => this.read(name)) };
  }

  swap({ name, seen, next, lastToken, isExact, until }: SqlSwap): StepReply {
    const row = this.rowOf(name);
    const isDone =
      row !== undefined &&
      row.version === seen.version &&
      (!isExact || row.notes.length === seen.notesRead) &&
      micros() <= until() * 1000;
    if (isDone) {
      const notes = row.notes.slice(seen.notesRead);
      this.put(name, row, { state: documentText(next), last: lastToken, notes });
    }
    return { isDone, row: this.read(name) };
  }

  read(name: string): LockRow {
    const none = { version: null, state: null, last: null, at: null, notes: null };
    return { ...none, ...this.rowOf(name), now: micros() };
  }

  sweep(after: string): readonly string[] {
    const now = micros();
    this.deleteFree.run(now - FREE_FOR_MICROS);
    const rows = this.findUnwritten.all(after, now - UNWRITTEN_FOR_MICROS) as { readonly name: string }[];
    return rows.map(({ name }) => name);
  }

  private rowOf(name: string): Row | undefined {
    return this.find.get(name) as Row | undefined;
  }

  private grant({ name, request, minToken }: SqlTake, row: Row | undefined): void {
    const last = Math.max(row?.last ?? 0, minToken, micros()) + request.tokens;
    this.put(name, row, { state: takenText(request), last, notes: '' });
  }

  /** Versions of a name only grow, also when its row was deleted in between. */
  private put(
    name: string,
    before: Row | undefined,
    { state, last, notes }: Pick<Row, 'state' | 'last' | 'notes'>,
  ): void {
    const now = micros();
    this.write.run(name, Math.max(now, (before?.version ?? 0) + 1), state, last, now, notes);
  }
}

function stored(note: Note): string {
  return `${noteText(note)}${micros()}],`;
}

/**
 * Time of day of this host, which all processes on the file share. The microseconds keep requests of one process in order.
 * After the clock of the host was set they may all be 0 or 999.
 */
export function micros(): number {
  const ms = Date.now();
  const within = Math.floor((performance.timeOrigin + performance.now() - ms) * 1000);
  return ms * 1000 + Math.min(999, Math.max(0, within));
}
