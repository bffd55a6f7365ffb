import type { OptionNames } from '../../../options/option-names.js';
import { LockConfigurationError } from '../../../port/lock.errors.js';
import type { LockStoreFactory } from '../../../port/lock-store.js';
import { systemChance } from '../../../time/chance.js';
import { checkCommandTimeout } from '../../common/command-timeout.js';
import { DocumentStore } from '../../core/document.store.js';
import { sqlOptionsOf, type SqlStoreOptions } from '../sql-options.js';
import type { DatabaseOptions, PostgresDatabase } from './postgres.database.js';
import { PostgresFunction } from './postgres.function.js';
import { connectionName } from '../../common/connection/connection-name.js';
import { PostgresRegister, type NotificationSource } from './postgres.register.js';
import { PostgresServer } from './postgres.server.js';
import {
  postgresAddressOf,
  checkPostgresTarget,
  isHandle,
  isPGlite,
  isPool,
  type PGliteDatabase,
  type PostgresHandle,
  type PostgresTarget,
} from './postgres.target.js';

const OPTION_NAMES: OptionNames<PostgresStoreOptions> = {
  table: true,
  access: true,
  commandTimeoutMs: true,
  notifications: true,
};

/**
 * Locks in a table of PostgreSQL, 13 or later: one row for each key.
 *
 * @param target a URL, options of `pg`, or a `Pool`, whose options are copied: the store opens two connections of its own.
 * Or a PGlite instance, or a function `{ query }` that runs one statement
 * @throws LockConfigurationError for a target that names no PostgreSQL, and for options that would do nothing
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
  const { table, access, commandTimeoutMs } = sqlOptionsOf('postgresStore', options, OPTION_NAMES);
  const { notifications } = options;
  if (notifications !== undefined && notifications !== 'poll') {
    throw new LockConfigurationError(
      `notifications must be 'poll' or left out; it is ${String(notifications)}.`,
    );
  }
  return {
    create(context) {
      checkCommandTimeout(commandTimeoutMs, context);
      const { clock, chance = systemChance, onWarning } = context;
      const clientId = chance.uuid();
      const name = connectionName(context.client);
      const { database, source } = partsOf(target, name, {
        clock,
        commandTimeoutMs,
        table,
        access,
        onWarning,
      });
      const address = postgresAddressOf(target);
      const parts = { ...context, chance, clientId, commandTimeoutMs, address };
      const register = new PostgresRegister(database, notifications ? undefined : source, parts);
      return new DocumentStore({ name: 'postgres', clientId }, register, context);
    },
  };
}

/** Options of `postgresStore`. Times are in ms. */
export interface PostgresStoreOptions extends SqlStoreOptions {
  /**
   * `poll`: no connection for notifications. The store reads what its callers wait for from time to time. For some hundred
   * processes on a server before PostgreSQL 19, where each notification wakes every listening connection. By default the
   * store listens, and polls where it finds that no notification arrives, as behind a transaction pooler.
   */
  readonly notifications?: 'poll';
}

interface PostgresParts {
  readonly database: PostgresDatabase;
  /** Where notifications come from, if any do. */
  readonly source: NotificationSource | undefined;
}

function partsOf(target: PostgresTarget, name: string, options: DatabaseOptions): PostgresParts {
  if (isFunction(target)) {
    return { database: new PostgresFunction(target, options), source: target.listen?.bind(target) };
  }
  const own = { target, connectionName: name };
  return { database: new PostgresServer(own, options), source: own };
}

function isFunction(target: PostgresTarget): target is PGliteDatabase | PostgresHandle {
  return typeof target === 'object' && !isPool(target) && (isPGlite(target) || isHandle(target));
}
