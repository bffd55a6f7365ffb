import { LockConfigurationError } from '../../../port/lock.errors.js';
import type { Clock } from '../../../time/clock.js';
import { inOneLine, lockTableSql, quoted } from '../lock-table.js';
import type { SqlLink } from '../sql-connection.js';
import { mysqlFailure, NO_SUCH_COLUMN, NO_SUCH_TABLE, numberOf } from './mysql.failures.js';
import type { Pipe } from './mysql.pipe.js';
import {
  MARIADB_NO_WAIT,
  MYSQL_NO_WAIT,
  MysqlStatements,
  plain,
  type TimeOfDay,
} from './mysql.statements.js';
import { checkTableShape } from './mysql.table.js';

const LEAST = { MySQL: [8, 0], MariaDB: [10, 5] } as const;

/** A session that can keep locks. */
export interface Prepared {
  readonly opened: SqlLink['opened'];
  readonly statements: MysqlStatements;
}

/** Finds out whether a session can keep locks, and makes the table if it is missing. */
export class Preparation {
  constructor(
    private readonly pipe: Pipe,
    private readonly times: TimeOfDay,
    private readonly table: string,
    private readonly clock: Clock,
  ) {}

  /** @throws LockConfigurationError, or the error of the first statement that fails */
  async run(): Promise<Prepared> {
    const [reply] = await this.pipe.run([plain('SELECT VERSION() AS version, @@autocommit AS autocommit')]);
    const { version, autocommit } = reply?.rows[0] ?? {};
    const name = serverOf(String(version));
    if (Number(autocommit) !== 1) {
      throw new LockConfigurationError(
        'autocommit is off in this session; each statement for locks must be committed',
      );
    }
    const noWait = name === 'MariaDB' ? MARIADB_NO_WAIT : MYSQL_NO_WAIT;
    const statements = new MysqlStatements(quoted(this.table, '`'), this.times, noWait);
    await this.ensureTable(statements);
    return { opened: await this.probe(statements), statements };
  }

  private async ensureTable(statements: MysqlStatements): Promise<void> {
    try {
      await this.pipe.run([statements.read([''])]);
    } catch (error) {
      if (numberOf(error) === NO_SUCH_TABLE) await this.createTable();
      // The shape of the table says more.
      else if (numberOf(error) !== NO_SUCH_COLUMN) throw error;
    }
    await checkTableShape(this.pipe, this.table);
  }

  /** Fails as later statements would: without the rights, on a read replica. */
  private async probe(statements: MysqlStatements): Promise<SqlLink['opened']> {
    const sentAt = this.clock.now();
    const [time] = await this.pipe.run([statements.time(), ...statements.probes()]);
    return { now: Number(time?.rows[0]?.['now']) / 1000, sentAt };
  }

  private async createTable(): Promise<void> {
    const sql = lockTableSql('mysql', this.table);
    try {
      await this.pipe.run([plain(sql)]);
    } catch (error) {
      const { reason, detail } = mysqlFailure(error);
      if (reason !== 'refused') throw error;
      throw new LockConfigurationError(
        `The lock table ${this.table} is missing, and the user of mysqlStore cannot make it: ${detail} Run this as another user, and grant SELECT, INSERT, UPDATE and DELETE on it: ${inOneLine(sql)}`,
        { cause: error },
      );
    }
  }
}

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
