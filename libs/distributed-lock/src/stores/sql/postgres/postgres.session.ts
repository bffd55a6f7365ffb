import { sliceOf, type SweptRow } from '../slice.js';
import type { Named, SqlStatements, SqlWriteReply } from '../sql-database.js';
import { sqlStateOf } from './postgres.errors.js';
import { namedRowIn } from './statements/notifications.js';
import { swapParameters, takeParameters } from './statements/parameters.js';
import type { PostgresStatement, PostgresStatements } from './statements/statements.js';

export type Send = (statement: PostgresStatement, parameters: unknown[]) => Promise<readonly PostgresRow[]>;

export interface PostgresRow {
  readonly done: number | string | bigint | null;
  /** The row as a text, which `namedRowIn` reads. */
  readonly row: string;
}

/** A statement whose requests came too late rolls itself back by a division by zero. */
const ROLLED_BACK_ITSELF = '22012';

/**
 * Executes requests by the statements of one table.
 *
 * @param mayRepeat the client may have a parameter several times in one statement. Some ORMs number parameters anew, so
 * that they take only the statements for many requests, which have each parameter once
 */
export function executeBy(
  send: Send,
  statements: PostgresStatements,
  { mayRepeat = true } = {},
): SqlStatements {
  const readNames = async (names: readonly string[]) =>
    inOrder(names, await send(statements.read, [JSON.stringify(names)]));

  /** Sends a write, and reads the rows that it did not write. A statement that has rolled itself back wrote none. */
  const write = (statement: PostgresStatement, items: readonly Named[], parameters: unknown[]) => {
    const names = namesOf(items);
    return send(statement, parameters).then(
      (rows) => (rows.length < names.length ? readNames(names) : inOrder(names, rows)),
      (error) => {
        if (sqlStateOf(error) !== ROLLED_BACK_ITSELF) throw error;
        return readNames(names);
      },
    );
  };

  return {
    take(takes) {
      const all = takes.map(takeParameters);
      const [first] = all;
      if (mayRepeat && all.length === 1)
        return write(statements.takeOne, takes, Object.values(first as object));
      return write(statements.takeMany, takes, [JSON.stringify(all)]);
    },
    swap(swaps) {
      const mayBeForgotten = swaps.every((swap) => swap.mayBeForgotten) ? 1 : 0;
      const all = swaps.map(swapParameters);
      const [first] = all;
      if (!mayRepeat || all.length > 1)
        return write(statements.swapMany, swaps, [JSON.stringify(all), mayBeForgotten]);
      return write(statements.swapOne, swaps, [...Object.values(first as object), mayBeForgotten]);
    },
    read: async (items) => (await readNames(namesOf(items))).map(({ row }) => row),
    async scan({ after, most }) {
      const rows = await send(statements.scan, [after, most]);
      return sliceOf(rows as readonly object[] as readonly SweptRow[], most);
    },
    async deleteFree(names) {
      await send(statements.deleteFree, [JSON.stringify(names)]);
    },
    async ping(channel) {
      await (channel === undefined ? send(statements.ping, []) : send(statements.notify, [channel]));
    },
  };
}

function inOrder(names: readonly string[], rows: readonly PostgresRow[]): readonly SqlWriteReply[] {
  const replies = new Map(
    rows.map(({ done, row: text }) => {
      const { name, row } = namedRowIn(text);
      return [name, { isDone: Number(done) === 1, row }];
    }),
  );
  return names.map((name) => {
    const reply = replies.get(name);
    if (!reply) throw new Error(`The statement replied nothing for the name ${JSON.stringify(name)}`);
    return reply;
  });
}

function namesOf(items: readonly Named[]): readonly string[] {
  return items.map(({ name }) => name);
}
