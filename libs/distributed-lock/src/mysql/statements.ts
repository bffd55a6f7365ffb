import { serializeDocument, serializeNote, serializeFirstGrant } from '../document/json.js';
import { FREE_FOR_MS, UNWRITTEN_FOR_MS } from '../sql/database.js';
import type { Swap, Take } from '../document/timed-register.js';

const sinceEpoch = (time: string) => `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ${time})`;
/** When the statement began, in microseconds since 1970. Uses UTC, because local times are ambiguous for an hour each autumn. */
const NOW = sinceEpoch('UTC_TIMESTAMP(6)');
/** When the server evaluates this expression, in microseconds since 1970. Later than `NOW` if the statement had to wait for a row. */
const HERE = sinceEpoch('SYSDATE(6)');

export const MARIADB_NO_WAIT: NoWait = {
  prefix: 'SET STATEMENT innodb_lock_wait_timeout = 0 FOR ',
  condition: () => 'TRUE',
};
export const MYSQL_NO_WAIT: NoWait = {
  prefix: '',
  // The server reads this derived table first, so a locked row makes the statement fail before it has written anything.
  condition: (table, names) =>
    `(SELECT locked FROM (SELECT COUNT(*) AS locked FROM ${table} WHERE name IN (${names}) FOR UPDATE NOWAIT) AS l) >= 0`,
};

const COLUMNS = 'name, writer, version, state, last, at, notes';

/**
 * The statements on the lock table. MySQL returns no rows from a write. So each write puts a random mark into the column `writer`
 * of its row. The read that follows finds this mark if no other write came later.
 */
export class MysqlStatements {
  /** @param table the name in quotes */
  constructor(
    private readonly table: string,
    private readonly noWait: NoWait,
  ) {}

  /**
   * A take in one statement. MySQL assigns columns from left to right, and later assignments see the new values. So `writer` is
   * assigned first, because all others test it, and `state` last, because `writer` tests its old value.
   */
  take({ name, request, minToken, notes, deadline }: Take, mark: number): MysqlStatement {
    const state = serializeFirstGrant(request);
    const isInTime = this.isInTime(deadline);
    const isMine = `writer = ${mark}`;
    const added = notes.map(() => `?, ${NOW}, '],'`).join(', ');
    const noted = notes.length > 0 ? `IF(${isInTime}, CONCAT(notes, ${added}), notes)` : 'notes';
    const lastAfter = (last: string) => `GREATEST(${last}, ${NOW}) + ${request.tokens}`;
    return {
      sql:
        `${this.noWait.prefix}INSERT INTO ${this.table} (${COLUMNS}) ` +
        `SELECT ${nameText(name)}, ${mark}, ${NOW}, ?, ${lastAfter(`${minToken}`)}, ${NOW}, '' FROM DUAL ` +
        `WHERE ${isInTime} AND ${this.isUnlocked([name])} ` +
        `ON DUPLICATE KEY UPDATE writer = IF(state IS NULL AND ${isInTime}, ${mark}, writer), ` +
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
        `${this.noWait.prefix}UPDATE ${this.table} SET writer = ${mark}, version = GREATEST(version + 1, ${NOW}), ` +
        `state = ${state === null ? 'NULL' : '?'}, last = ${lastToken}, at = ${NOW}, ` +
        `notes = SUBSTRING(notes, ${expected.notesRead + 1}) ` +
        `WHERE name = ${nameText(name)} AND version = ${expected.version} AND ${this.isInTime(deadline)} AND ${this.isUnlocked([name])}` +
        (failOnUnreadNotes ? ` AND CHAR_LENGTH(notes) = ${expected.notesRead}` : ''),
      parameters: state === null ? [] : [state],
    };
  }

  /** Reads rows. Returns at least one row, with the server's time, even if no row has one of these names. */
  read(names: readonly string[]): MysqlStatement {
    const columns = 'HEX(t.name) AS name, t.writer, t.version, t.state, t.last, t.at, t.notes, c.now';
    return plain(
      `SELECT ${columns} FROM (SELECT ${NOW} AS now) AS c ` +
        `LEFT JOIN ${this.table} AS t ON t.name IN (${names.map(nameText).join(', ')})`,
    );
  }

  scan(after: string, most: number): MysqlStatement {
    const unwritten = `state IS NOT NULL AND ${this.isOlderThan(UNWRITTEN_FOR_MS)}`;
    return plain(
      `SELECT HEX(name) AS name, state IS NOT NULL AS held, ${this.isFreeForLong()} AS free, ${unwritten} AS unwritten ` +
        `FROM ${this.table} WHERE name > ${nameText(after)} ORDER BY name LIMIT ${most}`,
    );
  }

  deleteFree(names: readonly string[]): MysqlStatement {
    const isNamed = `name IN (${names.map(nameText).join(', ')})`;
    return plain(`DELETE FROM ${this.table} WHERE ${isNamed} AND ${this.isFreeForLong()}`);
  }

  private isFreeForLong(): string {
    return `state IS NULL AND ${this.isOlderThan(FREE_FOR_MS)}`;
  }

  private isOlderThan(ms: number): string {
    return `at < ${NOW} - ${ms * 1000}`;
  }

  private isUnlocked(names: readonly string[]): string {
    return this.noWait.condition(this.table, names.map(nameText).join(', '));
  }

  private isInTime(deadline: () => number): string {
    return `${HERE} <= ${deadline() * 1000}`;
  }

  time(): MysqlStatement {
    return plain(`SELECT ${NOW} AS now`);
  }

  /**
   * Statements that change nothing. They fail if later ones would fail: because the table is another one, the user lacks a right,
   * or the server is read-only.
   */
  probes(): readonly MysqlStatement[] {
    const { table } = this;
    return [
      plain(`INSERT INTO ${table} (${COLUMNS}) SELECT ${COLUMNS} FROM ${table} WHERE name = ''`),
      plain(`UPDATE ${table} SET version = 0 WHERE name = ''`),
      plain(`DELETE FROM ${table} WHERE name = ''`),
    ];
  }
}

/** A statement, with a `?` for each of its parameters, in order. */
export interface MysqlStatement {
  readonly sql: string;
  readonly parameters: readonly string[];
}

/**
 * Makes a write fail at once if another transaction has locked its row. It must not wait there: requests for other keys wait
 * behind it, and MySQL's shortest timeout is a second.
 */
interface NoWait {
  /** Text to put in front of each write. */
  readonly prefix: string;
  /** A condition to add to each write. Fails at once if one of the rows is locked, and is true otherwise. */
  condition(table: string, names: string): string;
}

export function plain(sql: string): MysqlStatement {
  return { sql, parameters: [] };
}

/** A name as `HEX(name)` returns it. */
export function hexNameOf(name: string): string {
  return Buffer.from(name).toString('hex').toUpperCase();
}

function nameText(name: string): string {
  return `x'${hexNameOf(name)}'`;
}
