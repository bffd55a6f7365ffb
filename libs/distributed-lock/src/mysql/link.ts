import type { Connection, ResultSetHeader } from 'mysql2';
import type { Chance } from '../common/clock.js';
import { textOf } from '../connection/connection-errors.js';
import { serializeDocument, serializeNote, serializeFirstGrant } from '../document/json.js';
import type { Swap, Take } from '../document/timed-register.js';
import {
  FREE_FOR_MS,
  type LockRow,
  type Named,
  type ScannedRow,
  type SqlFailure,
  type SqlLink,
  type SqlWriteReply,
  UNWRITTEN_FOR_MS,
} from '../sql/database.js';

/**
 * A connection whose lock table was checked. Sends each write together with a read of the written rows, because MySQL returns no
 * rows from a write.
 */
export class MysqlLink implements SqlLink {
  readonly opened: SqlLink['opened'];
  /**
   * The random mark that each request writes into its row (see `MysqlStatements`). A request that is sent again has the same mark,
   * so that the read shows whether an earlier copy was executed.
   */
  private readonly marks = new WeakMap<Named, number>();

  constructor(
    private readonly pipe: MysqlPipe,
    private readonly statements: MysqlStatements,
    private readonly parts: Pick<SqlLink, 'opened'> & { readonly chance: Chance },
  ) {
    this.opened = parts.opened;
  }

  take(takes: readonly Take[]): Promise<readonly SqlWriteReply[]> {
    return this.write(takes, (take, mark) => this.statements.take(take, mark));
  }

  swap(swaps: readonly Swap[]): Promise<readonly SqlWriteReply[]> {
    return this.write(
      swaps,
      (swap, mark) => this.statements.swap(swap, mark),
      (reply) => (reply?.changed ?? 0) > 0,
    );
  }

  async read(items: readonly Named[]): Promise<readonly LockRow[]> {
    const [reply] = await this.pipe.run([this.statements.read(items)]);
    return rowsIn(reply, items);
  }

  async scan(after: string, most: number): Promise<readonly ScannedRow[]> {
    const [reply] = await this.pipe.run([this.statements.scan(after, most)]);
    const rows = (reply?.rows ?? []) as unknown as readonly ScannedRow[];
    return rows.map((row) => ({ ...row, name: Buffer.from(row.name, 'hex').toString() }));
  }

  async deleteFree(names: readonly string[]): Promise<void> {
    await this.pipe.run([this.statements.deleteFree(names)]);
  }

  async ping(): Promise<void> {
    await this.pipe.query(['DO 0']);
  }

  destroy(): void {
    this.pipe.destroy();
  }

  private async write<It extends Named>(
    items: readonly It[],
    statementOf: (item: It, mark: number) => MysqlStatement,
    wasWritten = (_reply: MysqlReply | undefined) => false,
  ): Promise<readonly SqlWriteReply[]> {
    const writes = items.map((item) => statementOf(item, this.markOf(item)));
    const replies = await this.pipe.run([...writes, this.statements.read(items)], items.length > 1);
    return rowsIn(replies.at(-1), items).map((row, i) => {
      const isMine = Number(row.writer) === this.markOf(items[i] as It);
      return { isDone: isMine || wasWritten(replies.at(i - items.length - 1)), row };
    });
  }

  /** @returns the mark of this item, which is never 0 */
  private markOf(item: Named): number {
    const mark = this.marks.get(item) ?? 1 + Number(`0x${this.parts.chance.hex(6)}`);
    this.marks.set(item, mark);
    return mark;
  }
}

/** A row with the mark of the request that wrote it last. */
type MarkedRow = LockRow & { readonly writer?: LockRow['version'] };

/**
 * The rows of the items, in the same order.
 *
 * @throws TwoRowsError if two rows have one name, because somebody has dropped the unique key since the connection was opened
 */
function rowsIn(reply: MysqlReply | undefined, items: readonly Named[]): readonly MarkedRow[] {
  const found = reply?.rows ?? [];
  const byName = new Map(found.map((row) => [row['name'], row]));
  if (byName.size < found.length) throw new TwoRowsError('The lock table has two rows of one key');
  return items.map(({ name }) => {
    const row = byName.get(hexNameOf(name)) ?? { now: found[0]?.['now'] };
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
      await this.query(['ROLLBACK']);
      throw error;
    }
  }

  /** Runs statements without parameters. */
  query(sqls: readonly string[]): Promise<readonly MysqlReply[]> {
    return this.send(sqls.map(plain));
  }

  destroy(): void {
    this.connection.destroy();
  }

  private send(statements: readonly MysqlStatement[]): Promise<readonly MysqlReply[]> {
    const sql = statements.map((statement) => statement.sql).join(';');
    const values = statements.flatMap(({ parameters }) => parameters);
    return new Promise((resolve, reject) => {
      this.connection.query({ sql, values }, (error, result) => {
        if (!error) return resolve((statements.length === 1 ? [result] : (result as unknown[])).map(replyIn));
        // Remove the statement's text, which contains keys and nonces: applications log the error as a `cause`.
        delete (error as { sql?: string }).sql;
        reject(error);
      });
    });
  }
}

/** The reply to one statement: how many rows it changed, or the rows that it read. */
interface MysqlReply {
  readonly changed: number;
  readonly rows: readonly Readonly<Record<string, unknown>>[];
}

function replyIn(result: unknown): MysqlReply {
  if (Array.isArray(result)) return { changed: 0, rows: result as MysqlReply['rows'] };
  return { changed: (result as ResultSetHeader).affectedRows, rows: [] };
}

const sinceEpoch = (time: string) => `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ${time})`;
/** When the statement began, in microseconds since 1970. Uses UTC, because local times are ambiguous for an hour each autumn. */
const NOW = sinceEpoch('UTC_TIMESTAMP(6)');
/** When the server evaluates this expression, in microseconds since 1970. Later than `NOW` if the statement had to wait for a row. */
const HERE = sinceEpoch('SYSDATE(6)');

const IS_FREE_FOR_LONG = `state IS NULL AND at < ${NOW} - ${FREE_FOR_MS * 1000}`;
const IS_UNWRITTEN = `state IS NOT NULL AND at < ${NOW} - ${UNWRITTEN_FOR_MS * 1000}`;

const COLUMNS = 'name, writer, version, state, last, at, notes';

/**
 * The statements on the lock table. MySQL returns no rows from a write. So each write puts a random mark into the column `writer`
 * of its row. The read that follows finds this mark if no other write came later.
 */
export class MysqlStatements {
  /** @param table the name in quotes */
  constructor(
    private readonly table: string,
    private readonly server: 'MySQL' | 'MariaDB',
  ) {}

  /**
   * A take in one statement. MySQL assigns columns from left to right, and later assignments see the new values. So `writer` is
   * assigned first, because all others test it, and `state` last, because `writer` tests its old value.
   */
  take({ name, request, minToken, notes, deadline }: Take, mark: number): MysqlStatement {
    const state = serializeFirstGrant(request);
    const inTime = isInTime(deadline);
    const isMine = `writer = ${mark}`;
    const added = notes.map(() => `?, ${NOW}, '],'`).join(', ');
    const noted = notes.length > 0 ? `IF(${inTime}, CONCAT(notes, ${added}), notes)` : 'notes';
    const lastAfter = (last: string) => `GREATEST(${last}, ${NOW}) + ${request.tokens}`;
    return {
      sql:
        `${this.noWait}INSERT INTO ${this.table} (${COLUMNS}) ` +
        `SELECT ${nameText(name)}, ${mark}, ${NOW}, ?, ${lastAfter(`${minToken}`)}, ${NOW}, '' FROM DUAL ` +
        `WHERE ${inTime} AND ${this.isUnlocked(name)} ` +
        `ON DUPLICATE KEY UPDATE writer = IF(state IS NULL AND ${inTime}, ${mark}, writer), ` +
        `version = IF(${isMine}, GREATEST(version + 1, ${NOW}), version), ` +
        `last = IF(${isMine}, ${lastAfter(`last, ${minToken}`)}, last), at = IF(${isMine}, ${NOW}, at), ` +
        `notes = IF(${isMine}, notes, ${noted}), state = IF(${isMine}, ?, state)`,
      parameters: [state, ...notes.map(serializeNote), state],
    };
  }

  swap({ name, expected, next, lastToken, failOnUnreadNotes, deadline }: Swap, mark: number): MysqlStatement {
    const state = serializeDocument(next);
    return {
      sql:
        `${this.noWait}UPDATE ${this.table} SET writer = ${mark}, version = GREATEST(version + 1, ${NOW}), ` +
        `state = ${state === null ? 'NULL' : '?'}, last = ${lastToken}, at = ${NOW}, ` +
        `notes = SUBSTRING(notes, ${expected.notesRead + 1}) ` +
        `WHERE name = ${nameText(name)} AND version = ${expected.version} AND ${isInTime(deadline)} AND ${this.isUnlocked(name)}` +
        (failOnUnreadNotes ? ` AND CHAR_LENGTH(notes) = ${expected.notesRead}` : ''),
      parameters: state === null ? [] : [state],
    };
  }

  /** Reads rows. Returns at least one row, with the server's time, even if no row has one of these names. */
  read(items: readonly Named[]): MysqlStatement {
    const columns = 'HEX(t.name) AS name, t.writer, t.version, t.state, t.last, t.at, t.notes, c.now';
    return plain(
      `SELECT ${columns} FROM (SELECT ${NOW} AS now) AS c ` +
        `LEFT JOIN ${this.table} AS t ON t.name IN (${items.map(({ name }) => nameText(name)).join(', ')})`,
    );
  }

  scan(after: string, most: number): MysqlStatement {
    return plain(
      `SELECT HEX(name) AS name, state IS NOT NULL AS held, ${IS_FREE_FOR_LONG} AS free, ${IS_UNWRITTEN} AS unwritten ` +
        `FROM ${this.table} WHERE name > ${nameText(after)} ORDER BY name LIMIT ${most}`,
    );
  }

  deleteFree(names: readonly string[]): MysqlStatement {
    return plain(
      `DELETE FROM ${this.table} WHERE name IN (${names.map(nameText).join(', ')}) AND ${IS_FREE_FOR_LONG}`,
    );
  }

  /**
   * MariaDB puts this text in front of each write, and MySQL adds the condition `isUnlocked`. Both make the write fail at once if
   * another transaction has locked its row. It must not wait there: requests for other keys wait behind it, and MySQL's shortest
   * timeout is a second.
   */
  private get noWait(): string {
    return this.server === 'MariaDB' ? 'SET STATEMENT innodb_lock_wait_timeout = 0 FOR ' : '';
  }

  private isUnlocked(name: string): string {
    if (this.server === 'MariaDB') return 'TRUE';
    // The server reads this derived table first, so the statement fails before it has written anything.
    const locked = `SELECT COUNT(*) AS locked FROM ${this.table} WHERE name = ${nameText(name)} FOR UPDATE NOWAIT`;
    return `(SELECT locked FROM (${locked}) AS l) >= 0`;
  }

  /** Reads the server's time. */
  get time(): string {
    return `SELECT ${NOW} AS now`;
  }

  /**
   * Statements that change nothing. They fail if later ones would fail: because the table is another one, the user lacks a right,
   * or the server is read-only.
   */
  get probes(): readonly string[] {
    const { table } = this;
    return [
      `INSERT INTO ${table} (${COLUMNS}) SELECT ${COLUMNS} FROM ${table} WHERE name = ''`,
      `UPDATE ${table} SET version = 0 WHERE name = ''`,
      `DELETE FROM ${table} WHERE name = ''`,
    ];
  }
}

/** A statement, with a `?` for each of its parameters, in order. */
interface MysqlStatement {
  readonly sql: string;
  readonly parameters: readonly string[];
}

function plain(sql: string): MysqlStatement {
  return { sql, parameters: [] };
}

function isInTime(deadline: () => number): string {
  return `${HERE} <= ${deadline() * 1000}`;
}

/** A name as `HEX(name)` returns it. */
function hexNameOf(name: string): string {
  return Buffer.from(name).toString('hex').toUpperCase();
}

function nameText(name: string): string {
  return `x'${hexNameOf(name)}'`;
}

type ServerFailure = Omit<SqlFailure, 'detail'> & { readonly advice?: string };

const NOT_NOW = { reason: 'unready' } as const;
const LOST = { reason: 'unknown' } as const;
const ROLLED_BACK = { ...NOT_NOW, mayRepeat: true };
const FATAL = { ...NOT_NOW, isFatal: true };

/** By error number of the server: what the error means for the requests that failed. MySQL and MariaDB share most numbers. */
const FAILURES: ReadonlyMap<number, ServerFailure> = new Map([
  ...known(
    [1205, 3572],
    { ...ROLLED_BACK, mayBeOne: true, isBlocked: true },
    'Another transaction holds the row of the lock: end the transactions that keep it',
  ),
  ...known([1213, 3101], ROLLED_BACK), // deadlock, or a conflict between nodes of a cluster
  ...known(
    [1040, 1203, 1226],
    NOT_NOW,
    'Each process needs one connection for its locks: raise max_connections, or stop those who leak theirs',
  ),
  ...known([1290, 1792, 1836], FATAL, 'Locks need the primary: give its address, or one that follows it'),
  ...refusals(
    [1044, 1046, 1049],
    'Give the target of mysqlStore a database that exists and its user may use',
  ),
  ...refusals([1045, 1251, 1698], 'Check user and password of the target of mysqlStore'),
  ...refusals([1142, 1143], 'The user needs SELECT, INSERT, UPDATE and DELETE on the table of the locks'),
  ...known([1146], { ...ROLLED_BACK, isFatal: true }), // no such table: the next connection makes it
  ...refusals(
    [1054, 1364],
    'Another table has the name of the lock table: give mysqlStore another one, or make it as lockTableSql says',
  ),
  ...refusals([1665], 'Set binlog_format of the server to ROW or MIXED'),
  ...known(
    [1153, 1406],
    { reason: 'refused', mayBeOne: true },
    'Raise max_allowed_packet of the server, or let fewer processes wait for one key',
  ),
  ...known([1021, 1030, 1114], NOT_NOW, 'The server has no room for the lock table'),
  ...known([1037], NOT_NOW), // out of memory
  // A node of Galera without its cluster, a member of Group Replication without its group.
  ...known(
    [1047, 3100],
    FATAL,
    'This node is cut off from the others: give an address that leads to one that is not',
  ),
  ...known([1317, 1969, 3024], LOST), // KILL QUERY: nobody knows which statement of the packet was cut off
  ...known([1053, 1180, 1927, 4031], LOST), // shutdown, failed commit, KILL, idle for longer than wait_timeout
]);

function known(numbers: readonly number[], failure: Omit<ServerFailure, 'advice'>, advice?: string) {
  return numbers.map((number): [number, ServerFailure] => [
    number,
    advice ? { ...failure, advice } : failure,
  ]);
}

function refusals(numbers: readonly number[], advice: string) {
  return known(numbers, { reason: 'refused' }, advice);
}

/** Thrown if two rows of the lock table have one name. The table has lost its unique key, so two owners could hold one lock. */
class TwoRowsError extends Error {}

/** The number of the server's error. It is negative for an error of the operating system, and 0 for any other. */
export function errorNumberOf(error: unknown): number {
  return (error as { readonly errno?: number } | undefined)?.errno ?? 0;
}

export function mysqlFailure(error: unknown): SqlFailure {
  // Replace the connection: the next one checks the table, finds that its unique key is missing, and reports that.
  if (error instanceof TwoRowsError) return { ...FATAL, detail: error.message };
  const number = errorNumberOf(error);
  const text = textOf(error);
  // The error is not the server's. It comes from the operating system or from mysql2, because the connection was lost or could not
  // be opened.
  if (number <= 0) return { ...LOST, detail: text };
  const { advice, ...failure } = FAILURES.get(number) ?? { reason: 'refused', mayBeOne: true };
  return { ...failure, detail: advice === undefined ? text : `${text}. ${advice}.` };
}
