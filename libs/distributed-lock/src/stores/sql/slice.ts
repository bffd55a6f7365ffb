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
