import type { OptionNames } from '../port/option-checks.js';
import type { LockStoreFactory } from '../port/lock-store.js';
import { systemChance } from '../common/clock.js';
import { connectionName } from '../connection/timing.js';
import { checkCommandTimeout } from '../connection/checks.js';
import { DocumentStore } from '../document/store.js';
import { SqlRegister } from '../sql/register.js';
import { sqlOptionsOf, type SqlStoreOptions } from '../sql/lock-table.js';
import { MysqlDatabase } from './database.js';
import { connectionOptions, mysqlAddressOf, type MysqlTarget } from './target.js';

const OPTION_NAMES: OptionNames<MysqlStoreOptions> = { table: true, access: true, commandTimeoutMs: true };

/**
 * Locks in one table of MySQL 8 or later, or of MariaDB 10.5 or later. Each process has one connection for its locks.
 *
 * The server notifies nobody, so a process that waits for a lock polls its row: the first in the queue every few milliseconds,
 * the others less often.
 *
 * @param target a URL, mysql2 options, or a mysql2 pool, whose options are copied and that stays yours
 * @throws LockConfigurationError for a target that mysql2 would take for localhost, and for options out of range
 * @example
 * ```ts
 * import { DistributedLockModule } from 'nestjs-distributed-lock';
 * import { mysqlStore } from 'nestjs-distributed-lock/mysql';
 *
 * DistributedLockModule.forRoot({ store: mysqlStore('mysql://app:secret@localhost:3306/shop') });
 * ```
 */
export function mysqlStore(target: MysqlTarget, options: MysqlStoreOptions = {}): LockStoreFactory {
  const { table, access, commandTimeoutMs } = sqlOptionsOf('mysqlStore', options, OPTION_NAMES);
  const own = connectionOptions(target);
  return {
    create(context) {
      checkCommandTimeout(commandTimeoutMs, context);
      const { clock, chance = systemChance } = context;
      const name = connectionName(context.client);
      const database = new MysqlDatabase(target, name, { table, access, clock, chance });
      const register = new SqlRegister(database, {
        ...context,
        commandTimeoutMs,
        address: mysqlAddressOf(own),
      });
      return new DocumentStore({ name: 'mysql', clientId: chance.uuid() }, register, context);
    },
  };
}

/** Options of `mysqlStore`. Times are in ms. */
export type MysqlStoreOptions = SqlStoreOptions;
