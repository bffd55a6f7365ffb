import type { Chance } from '../../../time/chance.js';
import type { LockRow } from '../sql-row.js';
import { sliceOf, type SweptRow } from '../slice.js';
import type { Item, Reply, Slice, SqlSwap, SqlTake, SqlRequestKind, SqlWriteReply } from '../sql-requests.js';
import { TwoRowsError } from './mysql.failures.js';
import type { MysqlPipe, MysqlReply, MysqlRow } from './mysql.pipe.js';
import { hexOf, type MysqlStatements, type MysqlStatement } from './mysql.statements.js';

interface Named {
  readonly name: string;
}

/** A row, and the mark of its last write. */
type MarkedRow = LockRow & { readonly writer: LockRow['version'] };

/** Sends requests as statements. Each write is followed by a reading of its rows. */
export class MysqlRequests {
  /** A request that is sent again has the same mark, so that an earlier copy that was executed is known by it. */
  private readonly marks = new WeakMap<Named, number>();

  constructor(
    private readonly pipe: MysqlPipe,
    private readonly statements: MysqlStatements,
    private readonly chance: Chance,
  ) {}

  async execute<Kind extends SqlRequestKind>(
    kind: Kind,
    items: readonly Item<Kind>[],
  ): Promise<readonly Reply<Kind>[]> {
    return (await this.send(kind, items as readonly never[])) as readonly Reply<Kind>[];
  }

  private async send(kind: SqlRequestKind, items: readonly never[]): Promise<readonly unknown[]> {
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
      case 'scan':
        return [await this.scan(items[0] as unknown as Item<'scan'>)];
      case 'deleteFree':
        await this.pipe.run([this.statements.deleteFree((items[0] as unknown as Item<'deleteFree'>).names)]);
        return [undefined];
      case 'ping':
        await this.pipe.run([statements.ping()]);
        return [undefined];
    }
  }

  private async write<It extends Named>(
    items: readonly It[],
    statementOf: (item: It, mark: number) => MysqlStatement,
    wasWritten: (reply: MysqlReply | undefined) => boolean,
  ): Promise<readonly SqlWriteReply[]> {
    const writes = items.map((item) => statementOf(item, this.markOf(item)));
    const replies = await this.pipe.run([...writes, this.reading(items)], items.length > 1);
    return rowsIn(replies.at(-1), items).map((row, i) => {
      const isMine = Number(row.writer) === this.markOf(items[i] as It);
      return { isDone: isMine || wasWritten(replies.at(i - items.length - 1)), row };
    });
  }

  private async read(items: readonly Named[]): Promise<readonly MarkedRow[]> {
    const [reply] = await this.pipe.run([this.reading(items)]);
    return rowsIn(reply, items);
  }

  private async scan({ after, most }: Item<'scan'>): Promise<Slice> {
    const [reply] = await this.pipe.run([this.statements.scan(after, most)]);
    const rows = (reply?.rows ?? []) as unknown as readonly SweptRow[];
    const named = rows.map((row) => ({ ...row, name: Buffer.from(row.name, 'hex').toString() }));
    return sliceOf(named, most);
  }

  private reading(items: readonly Named[]): MysqlStatement {
    return this.statements.read(items.map(({ name }) => name));
  }

  private markOf(item: Named): number {
    const mark = this.marks.get(item) ?? this.newMark();
    this.marks.set(item, mark);
    return mark;
  }

  /** Never 0. */
  private newMark(): number {
    return 1 + Number(`0x${this.chance.hex(6)}`);
  }
}

/**
 * The rows of the items, in order.
 *
 * @throws TwoRowsError when the table has lost its key since the session was opened
 */
function rowsIn(reply: MysqlReply | undefined, items: readonly Named[]): readonly MarkedRow[] {
  const found = reply?.rows ?? [];
  const byName = new Map(found.map((row) => [row['name'], row]));
  if (byName.size < found.length) throw new TwoRowsError();
  const now = found[0]?.['now'] as LockRow['now'];
  const missing: MysqlRow = {
    version: null,
    writer: null,
    state: null,
    last: null,
    at: null,
    notes: null,
    now,
  };
  return items.map(({ name }) => (byName.get(hexOf(name)) ?? missing) as unknown as MarkedRow);
}
