import type { StoreFailure } from '../common/connection/connection-errors.js';
import type { Swap, Take } from '../core/register.js';
import type { Scan, Slice } from './slice.js';
import type { SqlAccess } from './sql-options.js';
import type { LockRow } from './sql-row.js';

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
