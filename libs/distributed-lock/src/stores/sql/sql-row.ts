import { documentIn, notesIn } from '../core/document-text.js';
import type { Reading } from '../core/document.js';

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
