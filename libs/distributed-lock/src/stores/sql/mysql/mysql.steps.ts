import { randomInt } from 'node:crypto';
import type { LockRow } from '../sql-row.js';
import type { Item, Reply, SqlSwap, SqlTake, StepKind, StepReply } from '../steps.js';
import { mysqlFailure, NOT_FREE, numberOf } from './mysql.failures.js';
import type { Pipe, Row, StatementReply } from './mysql.pipe.js';
import { hexOf, type MysqlStatements, type Statement } from './mysql.statements.js';

interface Named {
  readonly name: string;
}

/** A row, and the mark of its last write. */
type MarkedRow = LockRow & { readonly writer: LockRow['version'] };

/** Sends steps as statements. Each write is followed by a reading of its rows. */
export class MysqlSteps {
  /** A step that is sent again has the same mark, so that an earlier copy that was executed is known by it. */
  private readonly marks = new WeakMap<Named, number>();

  constructor(
    private readonly pipe: Pipe,
    private readonly statements: MysqlStatements,
    /** Names whose last write was not answered, on this session or on one before it. */
    private readonly unanswered: Set<string>,
  ) {}

  async execute<Kind extends StepKind>(
    kind: Kind,
    items: readonly Item<Kind>[],
  ): Promise<readonly Reply<Kind>[]> {
    return (await this.send(kind, items as readonly never[])) as readonly Reply<Kind>[];
  }

  private async send(kind: StepKind, items: readonly never[]): Promise<readonly unknown[]> {
    const { statements } = this;
    switch (kind) {
      case 'take':
        return this.write<SqlTake>(
          items,
          (take, mark) => statements.take(take, mark),
          () => false,
        );
      case 'swap':
        return this.write<SqlSwap>(
          items,
          (swap, mark) => statements.swap(swap, mark),
          (reply) => (reply?.changed ?? 0) > 0,
        );
      case 'read':
        return (await this.read(items)).map((row) => ({ isDone: true, row }));
      case 'takeAll':
        return [await this.takeAll((items[0] as unknown as Item<'takeAll'>).takes)];
      case 'sweep':
        return [await this.sweep(items[0] as unknown as Item<'sweep'>)];
      case 'ping':
        await this.pipe.run([statements.ping()]);
        return [undefined];
    }
  }

  private async write<It extends Named>(
    items: readonly It[],
    statementOf: (item: It, mark: number) => Statement,
    wasWritten: (reply: StatementReply | undefined) => boolean,
  ): Promise<readonly StepReply[]> {
    const writes = items.map((item) => statementOf(item, this.markOf(item)));
    const replies = await this.unlessBlocked(items, (first) =>
      this.pipe.run([...first, ...writes, this.reading(items)], first.length + items.length > 1),
    );
    return rowsIn(replies.at(-1), items).map((row, i) => {
      const isMine = Number(row.writer) === this.markOf(items[i] as It);
      return { isDone: isMine || wasWritten(replies.at(i - items.length - 1)), row };
    });
  }

  /**
   * Another transaction may hold a row, and a statement that waits for it keeps all other keys back. The first statement on
   * a row that was not answered the last time therefore fails at once if the row is locked.
   */
  private async unlessBlocked<Result>(
    items: readonly Named[],
    send: (first: readonly Statement[]) => Promise<Result>,
  ): Promise<Result> {
    const names = items.map(({ name }) => name);
    const doubtful = names.filter((name) => this.unanswered.has(name));
    for (const name of names) this.unanswered.add(name);
    let isBlocked = false;
    try {
      return await send(doubtful.length > 0 ? [this.statements.lock(doubtful)] : []);
    } catch (error) {
      isBlocked = mysqlFailure(error).isBlocked ?? false;
      throw error;
    } finally {
      if (!isBlocked) for (const name of names) this.unanswered.delete(name);
    }
  }

  private async read(items: readonly Named[]): Promise<readonly MarkedRow[]> {
    const [reply] = await this.pipe.run([this.reading(items)]);
    return rowsIn(reply, items);
  }

  private async takeAll(takes: readonly SqlTake[]): Promise<Reply<'takeAll'>> {
    try {
      const write = this.statements.takeAll(takes, newMark());
      const replies = await this.pipe.run([write, this.reading(takes)]);
      return { isDone: true, rows: rowsIn(replies.at(-1), takes) };
    } catch (error) {
      if (numberOf(error) !== NOT_FREE) throw error;
      return { isDone: false, rows: await this.read(takes) };
    }
  }

  private async sweep({ after }: Item<'sweep'>): Promise<Reply<'sweep'>> {
    const [, reply] = await this.pipe.run([this.statements.sweep(), this.statements.unwritten(after)]);
    return (reply?.rows ?? []).map(({ name }) => Buffer.from(String(name), 'hex').toString());
  }

  private reading(items: readonly Named[]): Statement {
    return this.statements.read(items.map(({ name }) => name));
  }

  private markOf(item: Named): number {
    const mark = this.marks.get(item) ?? newMark();
    this.marks.set(item, mark);
    return mark;
  }
}

/** The rows of the items, in order. */
function rowsIn(reply: StatementReply | undefined, items: readonly Named[]): readonly MarkedRow[] {
  const found = reply?.rows ?? [];
  const byName = new Map(found.map((row) => [row['name'], row]));
  const now = found[0]?.['now'] as LockRow['now'];
  const missing: Row = { version: null, writer: null, state: null, last: null, at: null, notes: null, now };
  return items.map(({ name }) => (byName.get(hexOf(name)) ?? missing) as unknown as MarkedRow);
}

function newMark(): number {
  return randomInt(1, 2 ** 48 - 1);
}
