import { documentText, noteText, takenText } from '../../core/document-text.js';
import { FREE_FOR_MS, UNWRITTEN_FOR_MS, type SqlSwap, type SqlTake } from '../sql-requests.js';

/** `?` stands for each parameter, in order. */
export interface Statement {
  readonly sql: string;
  readonly parameters: readonly string[];
}

/** How a session tells the time, in microseconds since 1970. */
export interface TimeOfDay {
  /** When the statement began. */
  readonly now: string;
  /** When the expression is evaluated. That may be later than `now`, because the statement has waited for a row. */
  readonly here: string;
}

const sinceEpoch = (time: string) => `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ${time})`;
/** `NOW` and `UNIX_TIMESTAMP` are ambiguous for an hour of each autumn. */
const UTC = sinceEpoch('UTC_TIMESTAMP(6)');

export const UTC_SESSION: TimeOfDay = { now: UTC, here: sinceEpoch('SYSDATE(6)') };
/** For a session whose time zone is unknown. When its clocks change while a statement waits, `here` is wrong by that change. */
export const ANY_SESSION: TimeOfDay = {
  now: UTC,
  here: `${UTC} + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))`,
};

/**
 * A write must not wait for a row that another transaction has locked, because the requests on other keys wait behind it. The
 * least timeout of MySQL is a second.
 */
export interface NoWait {
  /** Before each write. */
  readonly prefix: string;
  /** A condition of each write: it fails at once if one of the rows is locked, and is always true otherwise. */
  condition(table: string, names: string): string;
}

export const MARIADB_NO_WAIT: NoWait = {
  prefix: 'SET STATEMENT innodb_lock_wait_timeout = 0 FOR ',
  condition: () => 'TRUE',
};
export const MYSQL_NO_WAIT: NoWait = {
  prefix: '',
  // The derived table is read before anything is written.
  condition: (table, names) =>
    `(SELECT locked FROM (SELECT COUNT(*) AS locked FROM ${table} WHERE name IN (${names}) FOR UPDATE NOWAIT) AS l) >= 0`,
};

const COLUMNS = 'name, writer, version, state, last, at, notes';

/**
 * The statements of the lock table. A write replies with no row, so each write has a random mark, and the reading after it
 * tells by the mark who has written.
 */
export class MysqlStatements {
  /** @param table quoted */
  constructor(
    private readonly table: string,
    private readonly times: TimeOfDay,
    private readonly noWait: NoWait,
  ) {}

  /**
   * Assignments run from left to right, each with the values of those before it. `writer` comes first because it decides
   * once, and `state` last because `writer` depends on it.
   */
  take({ name, request, minToken, notes, until }: SqlTake, mark: number): Statement {
    const { now } = this.times;
    const state = takenText(request);
    const isInTime = this.isInTime(until);
    const isMine = `writer = ${mark}`;
    const added = notes.map(() => `?, ${now}, '],'`).join(', ');
    const noted = notes.length > 0 ? `IF(${isInTime}, CONCAT(notes, ${added}), notes)` : 'notes';
    const lastAfter = (last: string) => `GREATEST(${last}, ${now}) + ${request.tokens}`;
    return {
      sql:
        `${this.noWait.prefix}INSERT INTO ${this.table} (${COLUMNS}) ` +
        `SELECT ${nameText(name)}, ${mark}, ${now}, ?, ${lastAfter(`${minToken}`)}, ${now}, '' FROM DUAL ` +
        `WHERE ${isInTime} AND ${this.isUnlocked([name])} ` +
        `ON DUPLICATE KEY UPDATE writer = IF(state IS NULL AND ${isInTime}, ${mark}, writer), ` +
        `version = IF(${isMine}, GREATEST(version + 1, ${now}), version), ` +
        `last = IF(${isMine}, ${lastAfter(`last, ${minToken}`)}, last), at = IF(${isMine}, ${now}, at), ` +
        `notes = IF(${isMine}, notes, ${noted}), state = IF(${isMine}, ?, state)`,
      parameters: [state, ...notes.map(noteText), state],
    };
  }

  swap({ name, expected, next, lastToken, isExact, until }: SqlSwap, mark: number): Statement {
    const { now } = this.times;
    const state = documentText(next);
    return {
      sql:
        `${this.noWait.prefix}UPDATE ${this.table} SET writer = ${mark}, version = GREATEST(version + 1, ${now}), ` +
        `state = ${state === null ? 'NULL' : '?'}, last = ${lastToken}, at = ${now}, ` +
        `notes = SUBSTRING(notes, ${expected.notesRead + 1}) ` +
        `WHERE name = ${nameText(name)} AND version = ${expected.version} AND ${this.isInTime(until)} AND ${this.isUnlocked([name])}` +
        (isExact ? ` AND CHAR_LENGTH(notes) = ${expected.notesRead}` : ''),
      parameters: state === null ? [] : [state],
    };
  }

  /** Replies with one row at least, which tells the time. */
  read(names: readonly string[]): Statement {
    const columns = 'HEX(t.name) AS name, t.writer, t.version, t.state, t.last, t.at, t.notes, c.now';
    return plain(
      `SELECT ${columns} FROM (SELECT ${this.times.now} AS now) AS c ` +
        `LEFT JOIN ${this.table} AS t ON t.name IN (${names.map(nameText).join(', ')})`,
    );
  }

  scan(after: string, most: number): Statement {
    const unwritten = `state IS NOT NULL AND ${this.isOlderThan(UNWRITTEN_FOR_MS)}`;
    return plain(
      `SELECT HEX(name) AS name, ${this.isFreeForLong()} AS free, ${unwritten} AS unwritten ` +
        `FROM ${this.table} WHERE name > ${nameText(after)} ORDER BY name LIMIT ${most}`,
    );
  }

  deleteFree(names: readonly string[]): Statement {
    const isNamed = `name IN (${names.map(nameText).join(', ')})`;
    return plain(`DELETE FROM ${this.table} WHERE ${isNamed} AND ${this.isFreeForLong()}`);
  }

  private isFreeForLong(): string {
    return `state IS NULL AND ${this.isOlderThan(FREE_FOR_MS)}`;
  }

  private isOlderThan(ms: number): string {
    return `at < ${this.times.now} - ${ms * 1000}`;
  }

  private isUnlocked(names: readonly string[]): string {
    return this.noWait.condition(this.table, names.map(nameText).join(', '));
  }

  private isInTime(until: () => number): string {
    return `${this.times.here} <= ${until() * 1000}`;
  }

  time(): Statement {
    return plain(`SELECT ${this.times.now} AS now`);
  }

  ping(): Statement {
    return plain('DO 0');
  }

  /** Fail as the others will when the table is missing or another one, a right is missing, or the server is read-only. */
  probes(): readonly Statement[] {
    const { table } = this;
    return [
      plain(`INSERT INTO ${table} (${COLUMNS}) SELECT ${COLUMNS} FROM ${table} WHERE name = ''`),
      plain(`UPDATE ${table} SET version = 0 WHERE name = ''`),
      plain(`DELETE FROM ${table} WHERE name = ''`),
    ];
  }
}

export function plain(sql: string): Statement {
  return { sql, parameters: [] };
}

/** As `HEX(name)` replies with it. */
export function hexOf(name: string): string {
  return Buffer.from(name).toString('hex').toUpperCase();
}

function nameText(name: string): string {
  return `x'${hexOf(name)}'`;
}
