import { connectionName } from '../connection/timing.js';
import type { LockStoreFactory } from '../port/lock-store.js';
import { SQL_OPTION_RULES, sqlStore, type SqlStoreOptions } from '../sql/store.js';
import { PostgresFunction, PostgresServer } from './database.js';
import { PostgresRegister } from './register.js';
import { checkPostgresTarget, isFunction, postgresAddressOf, type PostgresTarget } from './target.js';

/**
 * Locks in a table of PostgreSQL, 13 or later: one row for each key.
 *
 * @param target a URL, options of `pg`, or a `Pool`, whose options are copied: the store opens two connections of its own. Or a
 * PGlite instance, or an object with a function `query` of yours that runs one statement
 * @throws LockConfigurationError for a target that names no PostgreSQL, and for options that would have no effect
 * @example
 * ```ts
 * import { DistributedLockModule } from 'nestjs-distributed-lock';
 * import { postgresStore } from 'nestjs-distributed-lock/postgres';
 *
 * DistributedLockModule.forRoot({ store: postgresStore('postgres://app:secret@localhost:5432/shop') });
 * ```
 */
export function postgresStore(target: PostgresTarget, options: PostgresStoreOptions = {}): LockStoreFactory {
  checkPostgresTarget(target);
  const { notifications } = options;
  return sqlStore({
    name: 'postgres',
    options,
    rules: {
      ...SQL_OPTION_RULES,
      notifications: [(given) => given === 'poll', "'poll' or left out", String],
    },
    open(context) {
      const own = { ...context, address: postgresAddressOf(target) };
      if (isFunction(target)) {
        const listen = notifications ? undefined : target.listen?.bind(target);
        return new PostgresRegister(new PostgresFunction(target, own), listen, own);
      }
      const server = { target, connectionName: connectionName(context.client) };
      const database = new PostgresServer(server, own);
      return new PostgresRegister(database, notifications ? undefined : server, own);
    },
  });
}

/** Options of `postgresStore`. Times are in ms. */
export interface PostgresStoreOptions extends SqlStoreOptions {
  /**
   * `poll`: the store opens no connection for notifications, and reads from time to time what its callers wait for. Meant for
   * some hundred processes on a server before PostgreSQL 19, where each notification wakes every listening connection. By default
   * the store listens, and polls if it finds that no notification arrives, as behind a transaction pooler.
   */
  readonly notifications?: 'poll';
}
