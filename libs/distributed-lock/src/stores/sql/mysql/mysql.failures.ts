import { LockConfigurationError } from '../../../port/lock.errors.js';
import { textOf } from '../../common/connection/connection-errors.js';
import type { SqlFailure } from '../sql-database.js';

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

/** The failures by error numbers. MySQL and MariaDB share most of the numbers. */
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

/** A table that has lost its unique key takes the same name twice, so that two owners would hold. */
export class TwoRowsError extends Error {
  constructor() {
    super('The lock table has two rows of one key');
  }
}

/** An error of mysql2. A server's error has a positive number, an error of the system a negative one. */
interface MysqlError extends Error {
  readonly errno?: number;
  readonly driverError?: unknown;
}

type ServerFailure = Omit<SqlFailure, 'detail'> & { readonly advice?: string };

/** The number of the server's error. Tools wrap the error of their driver. */
export function errorNumberOf(error: unknown): number {
  const { errno, driverError, cause } = (error ?? {}) as MysqlError;
  return errno ?? ((driverError ?? cause) ? errorNumberOf(driverError ?? cause) : 0);
}

export function mysqlFailure(error: unknown): SqlFailure {
  if (error instanceof LockConfigurationError) return { ...NEVER, detail: error.message };
  // The next connection finds out that the table has lost its key, and refuses it.
  if (error instanceof TwoRowsError) return { ...NOT_NOW, isFatal: true, detail: error.message };
  const number = errorNumberOf(error);
  const text = textOf(error);
  // A connection that was lost or never made has an error of the system, or one of mysql2 itself.
  if (number <= 0) return { ...LOST, detail: text };
  const { advice, ...failure } = FAILURES[number] ?? { ...NEVER, mayBeOne: true };
  return { ...failure, detail: advice === undefined ? text : `${text}. ${advice}.` };
}
