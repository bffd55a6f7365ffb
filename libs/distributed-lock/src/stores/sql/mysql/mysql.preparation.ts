import { LockConfigurationError } from '../../../port/lock.errors.js';
import type { Clock } from '../../../time/clock.js';
import { lockTableSql } from '../lock-table.js';
import type { SqlSession } from '../sql-connection.js';
import { mysqlFailure, NO_SUCH_TABLE, numberOf } from './mysql.failures.js';
import type { Pipe } from './mysql.pipe.js';
import { plain, type MysqlStatements } from './mysql.statements.js';

const LEAST = { MySQL: [8, 0], MariaDB: [10, 5] } as const;

/** Finds out whether a session can keep locks, and makes the table if it is missing. */
export class Preparation {
  constructor(
    private readonly pipe: Pipe,
    private readonly statements: MysqlStatements,
    private readonly table: string,
    private readonly clock: Clock,
  ) {}

  /** @throws LockConfigurationError, or the error of the first statement that fails */
  async run(): Promise<SqlSession['opened']> {
    const [reply] = await this.pipe.run([plain('SELECT VERSION() AS version, @@autocommit AS autocommit')]);
    const { version, autocommit } = reply?.rows[0] ?? {};
    checkVersion(String(version));
    if (Number(autocommit) !== 1) {
      throw new LockConfigurationError(
        'autocommit is off in this session; each statement for locks must be committed',
      );
    }
    try {
      return await this.probe();
    } catch (error) {
      if (numberOf(error) !== NO_SUCH_TABLE) throw error;
      await this.createTable();
      return await this.probe();
    }
  }

  /** Fails as later statements would: on another table, without the rights, on a read replica. */
  private async probe(): Promise<SqlSession['opened']> {
    const sentAt = this.clock.now();
    const [time] = await this.pipe.run([this.statements.time(), ...this.statements.probes()]);
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
        `The lock table ${this.table} is missing, and the user of mysqlStore cannot make it: ${detail} Run this as another user, and grant SELECT, INSERT, UPDATE and DELETE on it:\n${sql};`,
        { cause: error },
      );
    }
  }
}

/** @throws LockConfigurationError */
function checkVersion(version: string): void {
  const name = version.includes('MariaDB') ? 'MariaDB' : 'MySQL';
  // MariaDB may put 5.5.5- before its version, for old clients.
  const [, major, minor] = /^(?:5\.5\.5-)?(\d+)\.(\d+)/.exec(version) ?? [];
  const [leastMajor, leastMinor] = LEAST[name];
  const isOlder = Number(major) < leastMajor || (Number(major) === leastMajor && Number(minor) < leastMinor);
  if (!isOlder) return;
  throw new LockConfigurationError(
    `The server of mysqlStore is ${name} ${version}. Locks need ${name} ${leastMajor}.${leastMinor} or later.`,
  );
}
