import { LockConfigurationError } from '../../../port/lock.errors.js';
import { lockTableSql, notMadeError, noTable, quoted } from '../lock-table.js';
import type { SqlDatabaseOptions } from '../sql-options.js';
import type { SqlLink } from '../sql-database.js';
import { mysqlFailure, NO_SUCH_COLUMN, NO_SUCH_TABLE, errorNumberOf } from './mysql.failures.js';
import type { MysqlPipe } from './mysql.pipe.js';
import { MARIADB_NO_WAIT, MYSQL_NO_WAIT, MysqlStatements, plain } from './mysql.statements.js';
import { checkTableShape } from './mysql.table.js';

/**
 * Finds out whether the server can keep locks, and makes the table if it is missing.
 *
 * @throws LockConfigurationError, or the error of the first statement that fails
 */
export async function prepare(
  pipe: MysqlPipe,
  { table, access, clock }: SqlDatabaseOptions,
): Promise<PreparedTable> {
  const [reply] = await pipe.run([plain('SELECT VERSION() AS version')]);
  const noWait =
    serverOf(String(reply?.rows[0]?.['version'])) === 'MariaDB' ? MARIADB_NO_WAIT : MYSQL_NO_WAIT;
  const statements = new MysqlStatements(quoted(table, '`'), noWait);
  try {
    await pipe.run([statements.read([''])]);
  } catch (error) {
    if (errorNumberOf(error) === NO_SUCH_TABLE) {
      if (access !== 'create') throw noTable({ store: 'mysqlStore', table });
      await createTable(pipe, table);
    }
    // A check of the shape of the table, which follows, says more.
    else if (errorNumberOf(error) !== NO_SUCH_COLUMN) throw error;
  }
  await checkTableShape(pipe, table);
  const sentAt = clock.now();
  const [time] = await pipe.run([statements.time(), ...(access === 'read' ? [] : statements.probes())]);
  return { opened: { now: Number(time?.rows[0]?.['now']) / 1000, sentAt }, statements };
}

export interface PreparedTable {
  readonly opened: SqlLink['opened'];
  readonly statements: MysqlStatements;
}

async function createTable(pipe: MysqlPipe, table: string): Promise<void> {
  const sql = lockTableSql('mysql', table);
  try {
    await pipe.run([plain(sql)]);
  } catch (error) {
    const { reason, detail } = mysqlFailure(error);
    if (reason !== 'refused') throw error;
    throw notMadeError({ store: 'mysqlStore', table, sql }, `: ${detail}`, error);
  }
}

const LEAST = { MySQL: [8, 0], MariaDB: [10, 5] } as const;

/** @throws LockConfigurationError for a server that is too old */
function serverOf(version: string): keyof typeof LEAST {
  const name = version.includes('MariaDB') ? 'MariaDB' : 'MySQL';
  // MariaDB may put 5.5.5- before its version, for old clients.
  const [, major, minor] = /^(?:5\.5\.5-)?(\d+)\.(\d+)/.exec(version) ?? [];
  const [leastMajor, leastMinor] = LEAST[name];
  const isOlder = Number(major) < leastMajor || (Number(major) === leastMajor && Number(minor) < leastMinor);
  if (!isOlder) return name;
  throw new LockConfigurationError(
    `The server of mysqlStore is ${name} ${version}. Locks need ${name} ${leastMajor}.${leastMinor} or later.`,
  );
}
