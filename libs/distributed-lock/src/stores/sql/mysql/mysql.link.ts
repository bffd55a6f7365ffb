import type { Chance } from '../../../time/chance.js';
import { sliceOf, type Scan, type Slice, type SweptRow } from '../slice.js';
import type { Swap, Take } from '../../core/register.js';
import type { Named, SqlLink, SqlWriteReply } from '../sql-database.js';
import { NO_ROW, type LockRow } from '../sql-row.js';
import { TwoRowsError } from './mysql.failures.js';
import type { MysqlPipe, MysqlReply } from './mysql.pipe.js';
import type { PreparedTable } from './mysql.preparation.js';
import { hexNameOf, plain, type MysqlStatement, type MysqlStatements } from './mysql.statements.js';

/** A connection whose table was checked. Each write is followed by a reading of its rows. */
export class MysqlLink implements SqlLink {
  readonly opened: SqlLink['opened'];
  private readonly statements: MysqlStatements;
  /** A request that is sent again keeps its mark, by which this client sees that an earlier copy was executed. */
  private readonly marks = new WeakMap<Named, number>();

  constructor(
    private readonly pipe: MysqlPipe,
    { opened, statements }: PreparedTable,
    private readonly chance: Chance,
  ) {
    this.opened = opened;
    this.statements = statements;
  }

  take(takes: readonly Take[]): Promise<readonly SqlWriteReply[]> {
    return this.write(
      takes,
      (take, mark) => this.statements.take(take, mark),
      () => false,
    );
  }

  swap(swaps: readonly Swap[]): Promise<readonly SqlWriteReply[]> {
    return this.write(
      swaps,
      (swap, mark) => this.statements.swap(swap, mark),
      (reply) => (reply?.changed ?? 0) > 0,
    );
  }

  async read(items: readonly Named[]): Promise<readonly LockRow[]> {
    const [reply] = await this.pipe.run([this.reading(items)]);
    return rowsIn(reply, items);
  }

  async scan({ after, most }: Scan): Promise<Slice> {
    const [reply] = await this.pipe.run([this.statements.scan(after, most)]);
    const rows = (reply?.rows ?? []) as unknown as readonly SweptRow[];
    const named = rows.map((row) => ({ ...row, name: Buffer.from(row.name, 'hex').toString() }));
    return sliceOf(named, most);
  }

  async deleteFree(names: readonly string[]): Promise<void> {
    await this.pipe.run([this.statements.deleteFree(names)]);
  }

  async ping(): Promise<void> {
    await this.pipe.run([plain('DO 0')]);
  }

  destroy(): void {
    this.pipe.destroy();
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

  private reading(items: readonly Named[]): MysqlStatement {
    return this.statements.read(items.map(({ name }) => name));
  }

  private markOf(item: Named): number {
    const mark = this.marks.get(item) ?? this.newMark();
    this.marks.set(item, mark);
    return mark;
  }

  /** @returns a random number, never 0 */
  private newMark(): number {
    return 1 + Number(`0x${this.chance.hex(6)}`);
  }
}

/** A row, and the mark of its last write. */
type MarkedRow = LockRow & { readonly writer: LockRow['version'] };

/**
 * The rows of the items, in order.
 *
 * @throws TwoRowsError when the table has lost its unique key since the connection was opened
 */
function rowsIn(reply: MysqlReply | undefined, items: readonly Named[]): readonly MarkedRow[] {
  const found = reply?.rows ?? [];
  const byName = new Map(found.map((row) => [row['name'], row]));
  if (byName.size < found.length) throw new TwoRowsError();
  const now = found[0]?.['now'] as LockRow['now'];
  return items.map(({ name }) => {
    const row = byName.get(hexNameOf(name)) ?? { ...NO_ROW, writer: null, now };
    return row as unknown as MarkedRow;
  });
}
