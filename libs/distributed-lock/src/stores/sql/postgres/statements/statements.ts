import { isFree, NOW, rowOf } from './parts.js';
import { swapMany, swapOne } from './swap.js';
import { takeMany, takeOne } from './take.js';

/** A statement, and the name under which a connection prepares it. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

export type Statements = ReturnType<typeof statementsFor>;

/** @param table quoted */
export function statementsFor(table: string) {
  const named = (name: string, text: string): Statement => ({ name: `nest_lock_${name}`, text });
  return {
    takeOne: named('take_one', takeOne(table)),
    takeMany: named('take_many', takeMany(table, false)),
    takeAll: named('take_all', takeMany(table, true)),
    swapOne: named('swap_one', swapOne(table)),
    swapMany: named('swap_many', swapMany(table)),
    read: named('read', read(table)),
    sweep: named('sweep', sweep(table)),
    ping: named('ping', 'SELECT 1'),
    notify: named('notify', `SELECT pg_notify($1, '')`),
  };
}

/** Rows by names in one JSON parameter. */
function read(table: string): string {
  return `
SELECT g.name, 0 AS done, ${rowOf('h')}, ${NOW} AS now
FROM json_array_elements_text($1::text::json) AS g (name) LEFT JOIN ${table} AS h ON h.name = g.name`;
}

/**
 * Deletes rows that were free for ten minutes, and selects names of documents that nobody has written for an hour.
 *
 * Parameter: the name after which to look for documents.
 */
function sweep(table: string): string {
  return `
WITH old AS (
  SELECT name FROM ${table} AS l WHERE ${isFree('l')} AND at < ${NOW} - 600e6 LIMIT 1000 FOR UPDATE SKIP LOCKED
),
gone AS (DELETE FROM ${table} AS l USING old WHERE l.name = old.name)
SELECT name FROM ${table} WHERE state IS NOT NULL AND at < ${NOW} - 3600e6 AND name > $1::text
ORDER BY name LIMIT 100`;
}
