import type { StoreFailure } from '../connection/connection-errors.js';
import type { Reading } from '../document/document.js';
import { documentIn, notesIn } from '../document/text.js';
import type { Swap, Take } from '../document/timed-register.js';
import type { SqlAccess } from './lock-table.js';

/** What `SqlConnection` needs from PostgreSQL, MySQL or SQLite. */
export interface SqlDatabase {
  /** Its name for messages: `PostgreSQL`. */
  readonly server: string;
  readonly access: SqlAccess;
  /** @param signal aborts when the connection is no longer wanted @param onLost called when the connection can send no more */
  open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlLink>;
  failureOf(error: unknown): SqlFailure;
}

/** A connection to the database on which statements can be sent. */
export interface SqlLink extends SqlStatements {
  /** The server's time in ms when the connection was opened, and our time when we asked for it. */
  readonly opened: { readonly now: number; readonly sentAt: number };
  /** Ends the connection at once, whatever the server does. */
  destroy(): void;
}

/** The requests of a store as SQL statements. A rejected promise carries the error of the client library. */
export interface SqlStatements extends BatchedStatements {
  /** Reads some rows in order of their names, for the sweeper and for lists. */
  scan(scan: Scan): Promise<Slice>;
  /** Deletes those of these rows that were free for long and that no transaction has locked. */
  deleteFree(names: readonly string[]): Promise<void>;
  /** Finds out whether the connection is alive. @param channel PostgreSQL notifies it, to find out whether notifications arrive */
  ping(channel?: string): Promise<void>;
}

/** Executes several requests of one kind together. They come in order of names, each name at most once, and so do the replies. */
export interface BatchedStatements {
  take(takes: readonly Take[]): Promise<readonly SqlWriteReply[]>;
  swap(swaps: readonly Swap[]): Promise<readonly SqlWriteReply[]>;
  read(rows: readonly Named[]): Promise<readonly LockRow[]>;
}

export interface Named {
  readonly name: string;
}

export interface SqlWriteReply {
  readonly isDone: boolean;
  readonly row: LockRow;
}

/** What an error of the database, or of its client library, means for the requests that were sent. */
export interface SqlFailure extends StoreFailure {
  /** `unknown`: the connection is lost, and nobody knows whether the statement was executed. */
  readonly reason: 'unknown' | 'unready' | 'refused';
  /** The statement was certainly rolled back, and may succeed if it is sent again. */
  readonly mayRepeat?: boolean;
  /** Another transaction holds a row. The request for it is sent again behind all others, so that they do not wait for that row. */
  readonly isBlocked?: boolean;
  /** One of the requests in the statement may have caused the error for all of them, so each is sent again alone. */
  readonly mayBeOne?: boolean;
  /** The connection cannot be used any more. */
  readonly isFatal?: boolean;
}

/** A row of the lock table as a statement returns it. The client library gives numbers as numbers, texts or bigints. */
export interface LockRow {
  /** `null` when there is no such row. */
  readonly version: SqlNumber | null;
  readonly state: string | null;
  readonly last: SqlNumber | null;
  readonly at: SqlNumber | null;
  readonly notes: string | null;
  /** The server's time of this reading, in microseconds. */
  readonly now: SqlNumber;
}

/** The columns of a row that does not exist. Only `now` is not among them. */
export const NO_ROW = { version: null, state: null, last: null, at: null, notes: null } as const;

type SqlNumber = number | string | bigint;

/** @throws LockStoreError for a document of another format */
export function readingOf(name: string, row: LockRow): Reading {
  const { state } = row;
  const micros = Number(row.now);
  const version = row.version === null ? undefined : Number(row.version);
  const lastToken = Number(row.last ?? 0);
  const text = { state, lastToken, at: Number(row.at ?? 0), notes: row.notes ?? '' };
  return {
    version,
    // A row is deleted only after it was free for long, so the present time is larger than all versions that it had.
    order: version ?? micros,
    document: documentIn(text, name),
    notes: notesIn(text, name),
    notesRead: text.notes.length,
    lastToken,
    now: micros / 1000,
    ticks: micros,
    nextTicket: micros,
  };
}

/** Rows of the lock table in order of their names. */
export interface Slice {
  /** The name of the last row of the slice. Absent if the table ends there. */
  readonly last: string | undefined;
  /** Names of documents that are not free. */
  readonly held: readonly string[];
  /** Names of documents that were free for long. */
  readonly free: readonly string[];
  /** Names of documents that nobody has written for long. */
  readonly unwritten: readonly string[];
}

export interface Scan {
  readonly after: string;
  readonly most: number;
}

/**
 * A row is deleted after it was free for this long, in ms. It holds the last token, so until then tokens grow even if the
 * server's clock is set back.
 */
export const FREE_FOR_MS = 10 * 60_000;
/** A document that was not written for this long, in ms, may belong to crashed processes. */
export const UNWRITTEN_FOR_MS = 60 * 60_000;

/** A row as `scan` reads it: `held`, `free` and `unwritten` are 1 if they are true. */
export interface SweptRow {
  readonly name: string;
  readonly held: number | string | bigint;
  readonly free: number | string | bigint;
  readonly unwritten: number | string | bigint;
}

/** @param most the limit of the statement. If it has returned fewer rows, the table ends there */
export function sliceOf(rows: readonly SweptRow[], most: number): Slice {
  const namesOf = (which: 'held' | 'free' | 'unwritten') =>
    rows.filter((row) => Number(row[which]) === 1).map(({ name }) => name);
  return {
    last: rows.length < most ? undefined : rows.at(-1)?.name,
    held: namesOf('held'),
    free: namesOf('free'),
    unwritten: namesOf('unwritten'),
  };
}

/** Properties in which ORMs put the error of the driver. */
const NESTED = ['cause', 'driverError', 'meta', 'driverAdapterError', 'originalError'] as const;

/** The error, and the errors that an ORM has wrapped in it, the outermost first. */
export function nestedErrors(error: unknown, depth = 0): readonly Readonly<Record<string, unknown>>[] {
  if (typeof error !== 'object' || error === null || depth > 5) return [];
  const fields = error as Readonly<Record<string, unknown>>;
  return [fields, ...NESTED.flatMap((name) => nestedErrors(fields[name], depth + 1))];
}
