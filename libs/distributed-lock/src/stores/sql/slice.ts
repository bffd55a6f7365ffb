import type { Slice } from './sql-requests.js';

/** What a statement tells of a row: `free` and `unwritten` are 1 where it is so. */
export interface SweptRow {
  readonly name: string;
  readonly free: number | string | bigint;
  readonly unwritten: number | string | bigint;
}

/** @param most as the statement was asked for: fewer rows are the last of the table */
export function sliceOf(rows: readonly SweptRow[], most: number): Slice {
  const namesOf = (which: 'free' | 'unwritten') =>
    rows.filter((row) => Number(row[which]) === 1).map(({ name }) => name);
  return {
    last: rows.length < most ? undefined : rows.at(-1)?.name,
    free: namesOf('free'),
    unwritten: namesOf('unwritten'),
  };
}
