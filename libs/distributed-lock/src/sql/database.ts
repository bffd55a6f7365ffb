import type { StoreFailure } from '../connection/connection-errors.js';
import type { Reading } from '../document/document.js';
import { documentIn, notesIn } from '../document/text.js';
import type { Swap, Take } from '../document/timed-register.js';
import type { SqlAccess } from './lock-table.js';

/** The parts of PostgreSQL, MySQL or SQLite that `SqlConnection` needs. */
export interface SqlDatabase {
  /** Its name for messages: `PostgreSQL`. */
  readonly server: string;
  readonly access: SqlAccess;
  /** @param signal the connection is not wanted any more @param onLost called when the connection can send no more */
  open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlLink>;
  failureOf(error: unknown): SqlFailure;
}

/** A connection to the database on which statements can be sent. */
export interface SqlLink extends SqlStatements {
  /** The server's time in ms as it told it when the connection was opened, and our time when it was asked. */
  readonly opened: { readonly now: number; readonly sentAt: number };
  /** Ends at once, whatever the server does. */
  destroy(): void;
}

/** The requests of stores as statements. A rejected promise has the error of the client. */
export interface SqlStatements extends BatchedStatements {
  /** Reads some rows in order of their names, for the sweeper and for lists. */
  scan(scan: Scan): Promise<Slice>;
  /** Deletes the rows among these that are free for long and not locked. */
  deleteFree(names: readonly string[]): Promise<void>;
  /** Finds out whether the connection still exists. @param channel PostgreSQL notifies it */
  ping(channel?: string): Promise<void>;
}

/** Executes several requests of one kind together, in order of their names, each name once. Replies in the same order. */
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

/** The meaning of an error of the database or of its client for the requests that were sent. */
export interface SqlFailure extends StoreFailure {
  /** `unknown`: the connection is lost, and nobody knows whether the statement was executed. */
  readonly reason: 'unknown' | 'unready' | 'refused';
  /** The statement was rolled back for certain, and may succeed when it is sent again. */
  readonly mayRepeat?: boolean;
  /** Another transaction holds a row: a request on it is sent again after all others, so that they do not wait for that row. */
  readonly isBlocked?: boolean;
  /** One of several requests in the statement may have caused the error, so each is sent again alone. */
  readonly mayBeOne?: boolean;
  /** The connection is of no more use. */
  readonly isFatal?: boolean;
}

/** A row of the lock table as a statement has returned it: numbers come as numbers, texts or bigints. */
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

/** A row that does not exist, without the time of its reading. */
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
    // A row is deleted only after it was free for long, so the time now is larger than all its versions.
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
  /** The name of the last row that was read. Absent at the end of the table. */
  readonly last: string | undefined;
  /** Names of documents that are not free. */
  readonly held: readonly string[];
  /** Names that were free for long. */
  readonly free: readonly string[];
  /** Names of documents that nobody has written for long. */
  readonly unwritten: readonly string[];
}

export interface Scan {
  readonly after: string;
  readonly most: number;
}

/** A row is deleted once it was free for this long. Until then its tokens grow even if the server's clock is set back. */
export const FREE_FOR_MS = 10 * 60_000;
/** A document that was not written for this long may belong to crashed processes. */
export const UNWRITTEN_FOR_MS = 60 * 60_000;

/** The state of a row in the reply of a statement: `held`, `free` and `unwritten` are 1 if they are true. */
export interface SweptRow {
  readonly name: string;
  readonly held: number | string | bigint;
  readonly free: number | string | bigint;
  readonly unwritten: number | string | bigint;
}

/** @param most the limit of the statement; fewer rows end the table */
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

/** Where ORMs put the error of the driver. */
const NESTED = ['cause', 'driverError', 'meta', 'driverAdapterError', 'originalError'] as const;

/** An error, and those that an ORM has wrapped in it, from the outside in. */
export function nestedErrors(error: unknown, depth = 0): readonly Readonly<Record<string, unknown>>[] {
  if (typeof error !== 'object' || error === null || depth > 5) return [];
  const fields = error as Readonly<Record<string, unknown>>;
  return [fields, ...NESTED.flatMap((name) => nestedErrors(fields[name], depth + 1))];
}
