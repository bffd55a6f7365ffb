import type { Connection, ResultSetHeader } from 'mysql2';
import type { Chance } from '../common/clock.js';
import { textOf } from '../connection/connection-errors.js';
import type { Swap, Take } from '../document/timed-register.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { type LockRow, NO_ROW, type Scan, type Slice, sliceOf, type SweptRow } from '../sql/database.js';
import type { Named, SqlFailure, SqlLink, SqlWriteReply } from '../sql/database.js';
import type { PreparedTable } from './database.js';
import { hexNameOf, type MysqlStatement, type MysqlStatements, plain } from './statements.js';

/**
 * A connection whose lock table was checked. Sends each write together with a read of the written rows, because MySQL returns no
 * rows from a write.
 */
export class MysqlLink implements SqlLink {
  readonly opened: SqlLink['opened'];
  private readonly statements: MysqlStatements;
  /**
   * The random mark that each request writes into its row (see `MysqlStatements`). A request that is sent again has the same mark,
   * so that the read shows whether an earlier copy was executed.
   */
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

  /** @returns a random number that is never 0 */
  private newMark(): number {
    return 1 + Number(`0x${this.chance.hex(6)}`);
  }
}

/** A row with the mark of the request that wrote it last. */
type MarkedRow = LockRow & { readonly writer: LockRow['version'] };

/**
 * The rows of the items, in the same order.
 *
 * @throws TwoRowsError if two rows have one name, because somebody has dropped the unique key since the connection was opened
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

/** Sends several statements in one packet. The server runs them one after the other, and all replies come back together. */
export class MysqlPipe {
  constructor(private readonly connection: Connection) {}

  /**
   * @param together run the statements in one transaction
   * @throws the error of the first statement that fails. The server does not run the ones after it
   */
  async run(statements: readonly MysqlStatement[], together = false): Promise<readonly MysqlReply[]> {
    if (!together) return this.send(statements);
    try {
      return (await this.send([plain('BEGIN'), ...statements, plain('COMMIT')])).slice(1, -1);
    } catch (error) {
      // The error has left the transaction open, and its rows locked. The next BEGIN would even commit it.
      await this.send([plain('ROLLBACK')]);
      throw error;
    }
  }

  destroy(): void {
    this.connection.destroy();
  }

  private send(statements: readonly MysqlStatement[]): Promise<readonly MysqlReply[]> {
    const sql = statements.map((statement) => statement.sql).join(';');
    const values = statements.flatMap(({ parameters }) => parameters);
    return new Promise((resolve, reject) => {
      this.connection.query({ sql, values }, (error, result) => {
        if (error) reject(withoutStatement(error));
        else resolve((statements.length === 1 ? [result] : (result as unknown[])).map(replyIn));
      });
    });
  }
}

export type MysqlRow = Readonly<Record<string, unknown>>;

/** The reply to one statement: how many rows it changed, or the rows that it read. */
interface MysqlReply {
  readonly changed: number;
  readonly rows: readonly MysqlRow[];
}

function replyIn(result: unknown): MysqlReply {
  if (Array.isArray(result)) return { changed: 0, rows: result as readonly MysqlRow[] };
  return { changed: (result as ResultSetHeader).affectedRows, rows: [] };
}

/** Removes the statement's text, which contains keys and nonces, from an error, because applications log the error as a `cause`. */
function withoutStatement(error: Error): Error {
  delete (error as { sql?: string }).sql;
  return error;
}

const NOT_NOW = { reason: 'unready' } as const;
const NEVER = { reason: 'refused' } as const;
const LOST = { reason: 'unknown' } as const;

const ROLLED_BACK = { ...NOT_NOW, mayRepeat: true };
const BLOCKED = {
  ...ROLLED_BACK,
  mayBeOne: true,
  isBlocked: true,
  advice: 'Another transaction holds the row of the lock: end the transactions that keep it',
};
const TOO_MANY = {
  ...NOT_NOW,
  advice:
    'Each process needs one connection for its locks: raise max_connections, or stop those who leak theirs',
};
const READ_ONLY = {
  ...NOT_NOW,
  isFatal: true,
  advice: 'Locks need the primary: give its address, or one that follows it',
};
const WRONG_USER = { ...NEVER, advice: 'Check user and password of the target of mysqlStore' };
const NO_DATABASE = {
  ...NEVER,
  advice: 'Give the target of mysqlStore a database that exists and its user may use',
};
const NO_RIGHT = {
  ...NEVER,
  advice: 'The user needs SELECT, INSERT, UPDATE and DELETE on the table of the locks',
};
const WRONG_TABLE = {
  ...NEVER,
  advice:
    'Another table has the name of the lock table: give mysqlStore another one, or make it as lockTableSql says',
};
const TOO_LONG = {
  ...NEVER,
  mayBeOne: true,
  advice: 'Raise max_allowed_packet of the server, or let fewer processes wait for one key',
};
const NO_SPACE = { ...NOT_NOW, advice: 'The server has no room for the lock table' };

/** By error number of the server: what the error means for the requests that failed. MySQL and MariaDB share most numbers. */
const FAILURES: Readonly<Record<number, ServerFailure>> = {
  1205: BLOCKED, // MariaDB, and MySQL after a second
  3572: BLOCKED, // MySQL, at once
  1213: ROLLED_BACK, // deadlock, or a conflict between nodes of a cluster
  3101: ROLLED_BACK, // Group Replication has found a conflict
  1040: TOO_MANY,
  1203: TOO_MANY,
  1226: TOO_MANY,
  1290: READ_ONLY,
  1792: READ_ONLY,
  1836: READ_ONLY,
  1044: NO_DATABASE,
  1046: NO_DATABASE,
  1049: NO_DATABASE,
  1045: WRONG_USER,
  1251: WRONG_USER,
  1698: WRONG_USER,
  1142: NO_RIGHT,
  1143: NO_RIGHT,
  1146: { ...ROLLED_BACK, isFatal: true }, // no such table: the next connection makes it
  1054: WRONG_TABLE,
  1364: WRONG_TABLE,
  1665: { ...NEVER, advice: 'Set binlog_format of the server to ROW or MIXED' },
  1153: TOO_LONG,
  1406: TOO_LONG,
  1021: NO_SPACE,
  1030: NO_SPACE,
  1114: NO_SPACE,
  1037: NOT_NOW, // out of memory
  1047: { ...NOT_NOW, isFatal: true }, // a node of Galera without its cluster
  3100: { ...NOT_NOW, isFatal: true }, // a member of Group Replication without its group
  1317: LOST, // KILL QUERY: nobody knows which statement of the packet was cut off
  1969: LOST,
  3024: LOST,
  1053: LOST, // shutdown
  1180: LOST, // the commit has failed
  1927: LOST, // KILL
  4031: LOST, // idle for longer than wait_timeout
};

export const NO_SUCH_TABLE = 1146;
export const NO_SUCH_COLUMN = 1054;

/** Thrown if two rows of the lock table have one name. The table has lost its unique key, so two owners could hold one lock. */
class TwoRowsError extends Error {
  constructor() {
    super('The lock table has two rows of one key');
  }
}

/** An error of mysql2. `errno` is positive if the server sent the error, and negative if it comes from the operating system. */
interface MysqlError extends Error {
  readonly errno?: number;
  readonly driverError?: unknown;
}

type ServerFailure = Omit<SqlFailure, 'detail'> & { readonly advice?: string };

/** The number of the server's error, also if an ORM has wrapped it; 0 if the error has none. */
export function errorNumberOf(error: unknown): number {
  const { errno, driverError, cause } = (error ?? {}) as MysqlError;
  return errno ?? ((driverError ?? cause) ? errorNumberOf(driverError ?? cause) : 0);
}

export function mysqlFailure(error: unknown): SqlFailure {
  if (error instanceof LockConfigurationError) return { ...NEVER, detail: error.message };
  // Replace the connection: the next one checks the table, finds that its unique key is missing, and reports that.
  if (error instanceof TwoRowsError) return { ...NOT_NOW, isFatal: true, detail: error.message };
  const number = errorNumberOf(error);
  const text = textOf(error);
  // The error is not the server's. It comes from the operating system or from mysql2, because the connection was lost or could not
  // be opened.
  if (number <= 0) return { ...LOST, detail: text };
  const { advice, ...failure } = FAILURES[number] ?? { ...NEVER, mayBeOne: true };
  return { ...failure, detail: advice === undefined ? text : `${text}. ${advice}.` };
}
