import type { LockStoreFactory } from '../port/lock-store.js';
import { SqlRegister } from '../sql/register.js';
import { SQL_OPTION_RULES, sqlStore, type SqlStoreOptions } from '../sql/store.js';
import { MysqlDatabase } from './database.js';
import { connectionOptions, mysqlAddressOf, type MysqlTarget } from './target.js';

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
  const address = mysqlAddressOf(connectionOptions(target));
  return sqlStore({
    name: 'mysql',
    options,
    rules: SQL_OPTION_RULES,
    open: (context) => new SqlRegister(new MysqlDatabase(target, context), { ...context, address }),
  });
}

/** Options of `mysqlStore`. Times are in ms. */
export type MysqlStoreOptions = SqlStoreOptions;
