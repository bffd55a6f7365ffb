import { type Chance, systemChance } from '../common/clock.js';
import { checkCommandTimeout } from '../connection/checks.js';
import { DocumentStore } from '../document/store.js';
import type { LockStoreContext, LockStoreFactory } from '../port/lock-store.js';
import { checkOptions, RULE, type OptionRules } from '../port/option-checks.js';
import { DEFAULT_TABLE, LockTable, TABLE_OPTION } from './lock-table.js';
import type { SqlRegister } from './register.js';

/** Options that all SQL stores have. */
export interface SqlStoreOptions {
  /** The lock table, with its schema if necessary: `app.nest_lock`; default `nest_lock`. Created on first use. */
  readonly table?: string;
  /**
   * `create`, the default: the store creates its table on first use. `write`: it creates no table, and refuses every request while
   * the table is missing. `read`: it writes nothing at all. It can list and inspect locks, for which its database user needs only
   * the right to SELECT, and it refuses all other requests.
   */
  readonly access?: 'create' | 'write' | 'read';
  /**
   * How long one statement may take, in ms, before its connection counts as dead and is replaced; default 500. A shorter time
   * makes the store notice failures earlier, and makes calls end closer to their `waitMs`. At most a third of the module's
   * `watchdogTimeoutMs`.
   */
  readonly commandTimeoutMs?: number;
}

export const SQL_OPTION_RULES: OptionRules<SqlStoreOptions> = {
  table: TABLE_OPTION,
  access: RULE.oneOf('create', 'write', 'read'),
  commandTimeoutMs: true,
};
export const SQL_COMMAND_TIMEOUT_MS = 500;

/** The context of one lock service, with the options of its SQL store. */
export interface SqlContext extends LockStoreContext {
  readonly chance: Chance;
  readonly clientId: string;
  readonly table: LockTable;
  readonly access: Required<SqlStoreOptions>['access'];
  readonly commandTimeoutMs: number;
  /** The address of the database for messages: host, port and database, or the path of a file. */
  readonly address?: string | undefined;
}

interface StoreParts<Options> {
  readonly name: ConstructorParameters<typeof LockTable>[0];
  readonly options: Options;
  readonly rules: OptionRules<Options>;
  /** Makes the register of one lock service. */
  readonly open: (context: SqlContext) => SqlRegister;
}

/** @throws LockConfigurationError for an option that the store does not have or cannot follow */
export function sqlStore<Options extends SqlStoreOptions>(parts: StoreParts<Options>): LockStoreFactory {
  const { name, options, rules, open } = parts;
  checkOptions(`${name}Store`, options, rules);
  const { table = DEFAULT_TABLE, access = 'create', commandTimeoutMs = SQL_COMMAND_TIMEOUT_MS } = options;
  const lockTable = new LockTable(name, table);
  return {
    create(context) {
      checkCommandTimeout(commandTimeoutMs, context);
      const { chance = systemChance } = context;
      const clientId = chance.uuid();
      const own = { chance, clientId, table: lockTable, access, commandTimeoutMs };
      return new DocumentStore({ name, clientId }, open({ ...context, ...own }), context);
    },
  };
}
