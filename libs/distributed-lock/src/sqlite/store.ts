import { resolve } from 'node:path';
import { describeGiven, type OptionNames } from '../port/option-checks.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { LockStoreFactory } from '../port/lock-store.js';
import { systemChance } from '../common/clock.js';
import { checkCommandTimeout } from '../connection/checks.js';
import { DocumentStore } from '../document/store.js';
import { sqlOptionsOf, type SqlStoreOptions } from '../sql/lock-table.js';
import { SqlRegister } from '../sql/register.js';
import { checkFile } from './database-file.js';
import { loadNodeSqlite } from './link.js';
import { SqliteDatabase } from './database.js';

const OPTION_NAMES: OptionNames<SqliteStoreOptions> = {
  table: true,
  access: true,
  commandTimeoutMs: true,
  synchronous: true,
};

/**
 * Locks in a SQLite file, shared by several processes of one host. Needs no server, but Node 22.13 or later.
 *
 * Give the locks a file of their own. While a process has the file open, nothing in that process may open and close it but
 * `node:sqlite`: no other SQLite library, and no code that copies the file. When such code closes the file, the operating system
 * drops SQLite's own locks on it.
 *
 * @param file its path. The file is created if there is none
 * @throws LockConfigurationError on an older Node, for a database in memory, and for options out of range
 * @example
 * ```ts
 * import { DistributedLockModule } from 'nestjs-distributed-lock';
 * import { sqliteStore } from 'nestjs-distributed-lock/sqlite';
 *
 * DistributedLockModule.forRoot({ store: sqliteStore('/var/lib/shop/locks.db') });
 * ```
 */
export function sqliteStore(file: string, options: SqliteStoreOptions = {}): LockStoreFactory {
  checkFile(file);
  const { table, access, commandTimeoutMs } = sqlOptionsOf('sqliteStore', options, OPTION_NAMES);
  const { synchronous = 'normal' } = options;
  if (synchronous !== 'normal' && synchronous !== 'full') {
    throw new LockConfigurationError(
      `synchronous must be 'normal' or 'full'; it is ${describeGiven(synchronous)}.`,
    );
  }
  const sqlite = loadNodeSqlite();
  // Resolve the path now, because a process may change its working directory.
  const path = resolve(file);
  return {
    create(context) {
      checkCommandTimeout(commandTimeoutMs, context);
      const { clock, chance = systemChance } = context;
      const options = { file: path, table, access, synchronous, clock, chance };
      const database = new SqliteDatabase(sqlite, options);
      const register = new SqlRegister(database, { ...context, commandTimeoutMs, address: file });
      return new DocumentStore({ name: 'sqlite', clientId: chance.uuid() }, register, context);
    },
  };
}

/** Options of `sqliteStore`. Times are in ms. */
export interface SqliteStoreOptions extends SqlStoreOptions {
  /**
   * `normal`, the default: a power failure may undo the last writes, and with them locks that are held. `full`: each write waits
   * until it is on disk. If only a process crashes, nothing is undone in either case.
   */
  readonly synchronous?: 'normal' | 'full';
}
