import { sliceOf, type SweptRow } from '../slice.js';
import type { LockRow } from '../sql-row.js';
import type { Execute, Item, Reply, SqlRequestKind, SqlWriteReply } from '../sql-requests.js';
import { sqlStateOf } from './postgres.errors.js';
import { swapParameters, takeParameters } from './statements/parameters.js';
import type { Statement, Statements } from './statements/statements.js';

/** Sends one statement and returns its rows. */
export type Send = (statement: Statement, parameters: unknown[]) => Promise<readonly PostgresRow[]>;

export interface PostgresRow extends LockRow {
  readonly name: string;
  readonly done: number | string | bigint | null;
}

/** A statement that found its requests too late has rolled itself back by a division by zero. */
const ROLLED_BACK_ITSELF = '22012';

/**
 * Executes requests by the statements of one table.
 *
 * @param mayRepeat the client may have a parameter several times in one statement. Some ORMs number parameters anew, so
 * that they take only the statements for many requests, which have each parameter once
 */
export function executeBy(send: Send, statements: Statements, { mayRepeat = true } = {}): Execute {
  const read = async (names: readonly string[]) =>
    inOrder(names, await send(statements.read, [JSON.stringify(names)]));

  /** A statement that has rolled itself back has done nothing, and one without a reply found no row: it is read. */
  const write = async (statement: Statement, names: readonly string[], parameters: unknown[]) => {
    try {
      const rows = await send(statement, parameters);
      return rows.length < names.length ? await read(names) : inOrder(names, rows);
    } catch (error) {
      if (sqlStateOf(error) !== ROLLED_BACK_ITSELF) throw error;
      return read(names);
    }
  };

  const by: { [Kind in SqlRequestKind]: (items: readonly Item<Kind>[]) => Promise<readonly Reply<Kind>[]> } =
    {
      take(takes) {
        const all = takes.map(takeParameters);
        const [first] = all;
        if (mayRepeat && all.length === 1)
          return write(statements.takeOne, namesOf(takes), Object.values(first as object));
        return write(statements.takeMany, namesOf(takes), [JSON.stringify(all)]);
      },
      swap(swaps) {
        const mayBeForgotten = swaps.every((swap) => swap.mayBeForgotten) ? 1 : 0;
        const all = swaps.map(swapParameters);
        const [first] = all;
        if (!mayRepeat || all.length > 1)
          return write(statements.swapMany, namesOf(swaps), [JSON.stringify(all), mayBeForgotten]);
        return write(statements.swapOne, namesOf(swaps), [...Object.values(first as object), mayBeForgotten]);
      },
      read: (items) => read(namesOf(items)),
      async scan([item]) {
        const { after, most } = item as Item<'scan'>;
        const rows = await send(statements.scan, [after, most]);
        return [sliceOf(rows as readonly object[] as readonly SweptRow[], most)];
      },
      async deleteFree([item]) {
        await send(statements.deleteFree, [JSON.stringify((item as Item<'deleteFree'>).names)]);
        return [undefined];
      },
      async ping([item]) {
        const { name } = item as Item<'ping'>;
        await (name === '' ? send(statements.ping, []) : send(statements.notify, [name]));
        return [undefined];
      },
    };
  return (kind, items) => by[kind](items as never) as never;
}

function inOrder(names: readonly string[], rows: readonly PostgresRow[]): readonly SqlWriteReply[] {
  const byName = new Map(rows.map((row) => [row.name, row]));
  return names.map((name) => {
    const row = byName.get(name);
    if (!row) throw new Error(`The statement replied nothing for the name ${JSON.stringify(name)}`);
    return { isDone: Number(row.done) === 1, row };
  });
}

function namesOf(items: readonly { readonly name: string }[]): readonly string[] {
  return items.map(({ name }) => name);
}
