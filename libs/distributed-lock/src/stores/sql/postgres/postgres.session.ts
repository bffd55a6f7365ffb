import type { LockRow } from '../sql-row.js';
import type { Execute, Item, Reply, StepKind, StepReply } from '../steps.js';
import { sqlStateOf } from './postgres.errors.js';
import type { Statement, Statements } from './statements.js';
import { swapsText, takesText } from './step-texts.js';

/** Sends one statement and returns its rows. */
export type Send = (statement: Statement, parameters: unknown[]) => Promise<readonly PostgresRow[]>;

export interface PostgresRow extends LockRow {
  readonly name: string;
  readonly done: number | string | bigint | null;
}

/** A statement that found its steps too late, or not all keys free, has rolled itself back by a division by zero. */
const ROLLED_BACK_ITSELF = '22012';

/** @returns executes steps by the statements of one table */
export function executeBy(send: Send, statements: Statements): Execute {
  const read = async (names: readonly string[]) =>
    inOrder(names, await send(statements.read, [JSON.stringify(names)]));

  /** A statement that has rolled itself back has done nothing: the rows are as they are. */
  const write = async (statement: Statement, names: readonly string[], parameters: unknown[]) => {
    try {
      return inOrder(names, await send(statement, parameters));
    } catch (error) {
      if (sqlStateOf(error) !== ROLLED_BACK_ITSELF) throw error;
      return read(names);
    }
  };

  const by: { [Kind in StepKind]: (items: readonly Item<Kind>[]) => Promise<readonly Reply<Kind>[]> } = {
    take: (takes) => write(statements.take, namesOf(takes), [takesText(takes)]),
    swap(swaps) {
      const mayBeForgotten = swaps.every((swap) => swap.mayBeForgotten);
      const statement = swaps.length > 1 ? statements.swapMany : statements.swap;
      return write(statement, namesOf(swaps), [swapsText(swaps), mayBeForgotten ? 1 : 0]);
    },
    read: (items) => read(namesOf(items)),
    async takeAll([item]) {
      const { takes } = item as Item<'takeAll'>;
      const replies = await write(statements.takeAll, namesOf(takes), [takesText(takes)]);
      return [{ isDone: replies.every(({ isDone }) => isDone), rows: replies.map(({ row }) => row) }];
    },
    async sweep([item]) {
      const rows = await send(statements.sweep, [(item as Item<'sweep'>).after]);
      return [rows.map(({ name }) => name)];
    },
    async ping([item]) {
      const { name } = item as Item<'ping'>;
      await (name === '' ? send(statements.ping, []) : send(statements.notify, [name]));
      return [undefined];
    },
  };
  return (kind, items) => by[kind](items as never) as never;
}

function inOrder(names: readonly string[], rows: readonly PostgresRow[]): readonly StepReply[] {
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
