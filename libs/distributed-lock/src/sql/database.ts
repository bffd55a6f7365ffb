import type { StoreFailure } from '../connection/connection-errors.js';
import type { Reading } from '../document/document.js';
import { parseDocument, parseNotes } from '../document/json.js';
import type { Swap, Take } from '../document/timed-register.js';

/** Opens connections to PostgreSQL, MySQL or SQLite, and interprets the errors of its client library. */
export interface SqlDatabase {
  /** The name of the database system in messages: `PostgreSQL`. */
  readonly server: string;
  /**
   * Opens a connection.
   *
   * @param signal aborts when the connection is no longer wanted
   * @param onLost called when the connection can send nothing more
   */
  open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlLink>;
  failureOf(error: unknown): SqlFailure;
}

/**
 * An open connection to the database. A rejected promise carries the error of the client library.
 *
 * `take`, `swap` and `read` execute several requests of one kind at once. The requests are sorted by name, with each name at most
 * once, and the replies are in the same order.
 */
export interface SqlLink {
  /** The server's time in ms, read while the connection was opened, and our time when we asked for it. */
  readonly opened: { readonly now: number; readonly sentAt: number };
  take(takes: readonly Take[]): Promise<readonly SqlWriteReply[]>;
  swap(swaps: readonly Swap[]): Promise<readonly SqlWriteReply[]>;
  read(rows: readonly Named[]): Promise<readonly LockRow[]>;
  /** Reads the next rows after this name, in order of their names: for the sweeper, which deletes old rows, and for lists of locks. */
  scan(after: string, most: number): Promise<readonly ScannedRow[]>;
  /** Deletes those of these rows that have been free for long. Skips rows that a transaction has locked. */
  deleteFree(names: readonly string[]): Promise<void>;
  /**
   * Checks whether the connection is alive.
   *
   * @param channel PostgreSQL sends a notification on it, which shows whether notifications arrive
   */
  ping(channel?: string): Promise<void>;
  /** Ends the connection at once, even if the server does not react. */
  destroy(): void;
}

export interface Named {
  readonly name: string;
}

export interface SqlWriteReply {
  readonly isDone: boolean;
  readonly row: LockRow;
}

/** The meaning of an error of the database, or of its client library, for the requests that were sent. */
export interface SqlFailure extends StoreFailure {
  /** `unknown`: the connection is lost, and nobody knows whether the statement was executed. */
  readonly reason: 'unknown' | 'unready' | 'refused';
  /** The statement was certainly rolled back, and may succeed if it is sent again. */
  readonly mayRepeat?: boolean;
  /** Another transaction has a row locked. The request for that row is sent again later, and all other requests go first. */
  readonly isBlocked?: boolean;
  /** One request may have made the statement fail for all of them. So each is sent again alone. */
  readonly mayBeOne?: boolean;
  /** The connection cannot be used any more. */
  readonly isFatal?: boolean;
}

/** A row of the lock table as the client library returns it. */
export interface LockRow {
  /** The server's time when it executed the statement, in microseconds. */
  readonly now: SqlNumber;
  /** Absent or `null`, as are the columns that follow, if there is no row of that name. */
  readonly version?: SqlNumber | null;
  readonly state?: string | null;
  readonly last?: SqlNumber | null;
  readonly at?: SqlNumber | null;
  readonly notes?: string | null;
}

type SqlNumber = number | string | bigint;

/** @throws LockStoreError for a document of another format */
export function readingOf(name: string, row: LockRow): Reading {
  const micros = Number(row.now);
  const version = row.version == null ? undefined : Number(row.version);
  const lastToken = Number(row.last ?? 0);
  const text = { state: row.state ?? null, lastToken, at: Number(row.at ?? 0), notes: row.notes ?? '' };
  return {
    version,
    // Without a row, use the server's time. It is larger than any version that a deleted row had, because rows are deleted only
    // after they were free for minutes.
    order: version ?? micros,
    document: parseDocument(text, name),
    notes: parseNotes(text, name),
    notesRead: text.notes.length,
    lastToken,
    now: micros / 1000,
    ticks: micros,
    nextTicket: micros,
  };
}

/** A row as `scan` reads it. The flags are 1 if they are true. */
export interface ScannedRow {
  readonly name: string;
  /** The document has a holder or a waiter. */
  readonly held: SqlNumber;
  /** The document has been free for `FREE_FOR_MS`. */
  readonly free: SqlNumber;
  /** The document has a holder or a waiter, and nobody has written it for `UNWRITTEN_FOR_MS`. */
  readonly unwritten: SqlNumber;
}

/**
 * How long a row stays in the table after its lock became free, in ms. The row contains the last token. As long as it stays,
 * tokens grow even if somebody sets the server's clock back.
 */
export const FREE_FOR_MS = 10 * 60_000;
/** If nobody has written a document for this long, in ms, its holders and waiters may have crashed, and the sweeper looks at it. */
export const UNWRITTEN_FOR_MS = 60 * 60_000;

/** Properties in which ORMs put the error of the database driver. */
const NESTED = ['cause', 'driverError', 'meta', 'driverAdapterError', 'originalError'] as const;

/** The error, followed by the errors that an ORM has wrapped in it, from the outside in. */
export function nestedErrors(error: unknown, depth = 0): readonly Readonly<Record<string, unknown>>[] {
  if (typeof error !== 'object' || error === null || depth > 5) return [];
  const fields = error as Readonly<Record<string, unknown>>;
  return [fields, ...NESTED.flatMap((name) => nestedErrors(fields[name], depth + 1))];
}
