import type { Client, QueryConfig } from 'pg';
import { systemChance } from '../common/clock.js';
import { conceal } from '../common/redaction.js';
import { checkCommandTimeout } from '../connection/checks.js';
import { connectionName } from '../connection/timing.js';
import { DocumentStore } from '../document/store.js';
import type { LockStoreFactory } from '../port/lock-store.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { OptionNames } from '../port/option-checks.js';
import { sliceOf, type SweptRow } from '../sql/database.js';
import type { Named, SqlFailure, SqlLink, SqlStatements, SqlWriteReply } from '../sql/database.js';
import { sqlOptionsOf, type SqlStoreOptions } from '../sql/lock-table.js';
import { type DatabaseOptions, PostgresDatabase, type Query } from './database.js';
import { sqlStateOf } from './failures.js';
import { connectOwn, destroy, type OwnTarget } from './own-client.js';
import { type NotificationSource, PostgresRegister } from './register.js';
import { namedRowIn, swapParameters, takeParameters } from './statements.js';
import type { PostgresStatement, PostgresStatements } from './statements.js';
import {
  checkPostgresTarget,
  isHandle,
  isPGlite,
  isPool,
  type PGliteDatabase,
  postgresAddressOf,
  type PostgresHandle,
  type PostgresTarget,
} from './target.js';

const OPTION_NAMES: OptionNames<PostgresStoreOptions> = {
  table: true,
  access: true,
  commandTimeoutMs: true,
  notifications: true,
};

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
   * `poll`: the store opens no connection for notifications, and reads from time to time what its callers wait for. Meant for
   * some hundred processes on a server before PostgreSQL 19, where each notification wakes every listening connection. By default
   * the store listens, and polls if it finds that no notification arrives, as behind a transaction pooler.
   */
  readonly notifications?: 'poll';
}

interface PostgresParts {
  readonly database: PostgresDatabase;
  /** Where notifications come from. `undefined`: there are none, and the store polls. */
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

type Send = (statement: PostgresStatement, parameters: unknown[]) => Promise<readonly PostgresRow[]>;

interface PostgresRow {
  readonly done: number | string | bigint | null;
  /** The row as a JSON text, which `namedRowIn` parses. */
  readonly row: string;
}

/**
 * The SQLSTATE of a division by zero: the statement has rolled itself back, because one of its requests came after its deadline
 * (`inTime`).
 */
const ROLLED_BACK_ITSELF = '22012';

/**
 * Executes the requests of a store by SQL statements on one table.
 *
 * @param mayRepeat whether a statement may use a parameter several times. `false` for ORMs that number parameters anew: only the
 * statements for several requests are used then, in which each parameter occurs once
 */
function statementsOver(
  send: Send,
  statements: PostgresStatements,
  { mayRepeat = true } = {},
): SqlStatements {
  const readNames = async (names: readonly string[]) =>
    inOrder(names, await send(statements.read, [JSON.stringify(names)]));

  /**
   * Sends a write. Afterwards reads the rows, if the statement did not return all of them because another client wrote first, or
   * if it has rolled itself back because it came too late.
   */
  const write = (statement: PostgresStatement, items: readonly Named[], parameters: unknown[]) => {
    const names = namesOf(items);
    return send(statement, parameters).then(
      (rows) => (rows.length < names.length ? readNames(names) : inOrder(names, rows)),
      (error) => {
        if (sqlStateOf(error) !== ROLLED_BACK_ITSELF) throw error;
        return readNames(names);
      },
    );
  };

  return {
    take(takes) {
      const all = takes.map(takeParameters);
      const [first] = all;
      if (mayRepeat && all.length === 1)
        return write(statements.takeOne, takes, Object.values(first as object));
      return write(statements.takeMany, takes, [JSON.stringify(all)]);
    },
    swap(swaps) {
      const mayBeForgotten = swaps.every((swap) => swap.mayBeForgotten) ? 1 : 0;
      const all = swaps.map(swapParameters);
      const [first] = all;
      if (!mayRepeat || all.length > 1)
        return write(statements.swapMany, swaps, [JSON.stringify(all), mayBeForgotten]);
      return write(statements.swapOne, swaps, [...Object.values(first as object), mayBeForgotten]);
    },
    read: async (items) => (await readNames(namesOf(items))).map(({ row }) => row),
    async scan({ after, most }) {
      const rows = await send(statements.scan, [after, most]);
      return sliceOf(rows as readonly object[] as readonly SweptRow[], most);
    },
    async deleteFree(names) {
      await send(statements.deleteFree, [JSON.stringify(names)]);
    },
    async ping(channel) {
      await (channel === undefined ? send(statements.ping, []) : send(statements.notify, [channel]));
    },
  };
}

function inOrder(names: readonly string[], rows: readonly PostgresRow[]): readonly SqlWriteReply[] {
  const replies = new Map(
    rows.map(({ done, row: text }) => {
      const { name, row } = namedRowIn(text);
      return [name, { isDone: Number(done) === 1, row }];
    }),
  );
  return names.map((name) => {
    const reply = replies.get(name);
    if (!reply) throw new Error(`The statement replied nothing for the name ${JSON.stringify(name)}`);
    return reply;
  });
}

function namesOf(items: readonly Named[]): readonly string[] {
  return items.map(({ name }) => name);
}

/** SQLSTATEs that reveal a pooler: the statement is not prepared on this server connection, or another client has prepared it there. */
const NOT_PREPARED = ['26000', '42P05'];

/** A PostgreSQL server, on a connection that the store opens itself. */
class PostgresServer extends PostgresDatabase {
  constructor(
    private readonly target: OwnTarget,
    options: DatabaseOptions,
  ) {
    super(options);
    conceal(this, 'target');
  }

  open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlLink> {
    return connectOwn(this.target, { signal, onLost }, (client) => this.linkOf(client));
  }

  private async linkOf(client: Client): Promise<SqlLink> {
    const query: Query = async (text, values) => (await client.query(text, values)).rows as object[];
    const hello = await this.greet(query);
    // Behind a pooler, the server's process id differs from the one that the client got when it connected.
    let isDirect = Number(hello.pid) === (client as Client & { processID: number }).processID;
    if (isDirect) await this.setUp(query, Number(hello.server));
    else await this.checkUnlocked(query);
    const rowsOf = ({ rows }: { readonly rows: readonly PostgresRow[] }) => rows;
    const execute = (config: QueryConfig) => client.query<PostgresRow>(config).then(rowsOf);
    const send: Send = ({ name, text }, values) => {
      if (!isDirect) return execute({ text, values });
      return client.query<PostgresRow>({ name, text, values }).then(rowsOf, (error) => {
        if (!NOT_PREPARED.includes(sqlStateOf(error) ?? '')) throw error;
        isDirect = false;
        return execute({ text, values });
      });
    };
    return {
      ...statementsOver(send, this.statements),
      opened: { now: Number(hello.now) / 1000, sentAt: hello.sentAt },
      destroy: () => destroy(client),
    };
  }

  /**
   * Changes settings of the session. Not called behind a pooler, which would later give the session with these settings to other
   * clients.
   */
  private async setUp(query: Query, server: number): Promise<void> {
    const settings = {
      statement_timeout: this.options.commandTimeoutMs,
      lock_timeout: this.lockTimeoutMs,
      default_transaction_isolation: 'read committed',
      ...(server >= 140000 && { idle_session_timeout: 0 }),
      // Planning costs more than executing, so force a generic plan. Forbid sequential scans, because a plan made while the table
      // is small would keep using one.
      plan_cache_mode: 'force_generic_plan',
      enable_seqscan: 'off',
      jit: 'off',
    };
    const set = Object.keys(settings).map((name, i) => `set_config('${name}', $${i + 1}, false)`);
    await query(`SELECT ${set.join(', ')}`, Object.values(settings).map(String));
  }
}

/**
 * A database inside this process (PGlite), or behind a query function of the application. Its sessions and their settings are not
 * ours to change.
 */
class PostgresFunction extends PostgresDatabase {
  constructor(
    private readonly handle: PGliteDatabase | PostgresHandle,
    options: DatabaseOptions,
  ) {
    super(options);
    conceal(this, 'handle');
  }

  async open(): Promise<SqlLink> {
    const query: Query = async (sql, parameters) => {
      const answer = await this.handle.query(sql, parameters);
      return (Array.isArray(answer) ? answer : (answer as { rows: object[] }).rows) as object[];
    };
    const hello = await this.greet(query);
    if (!isPGlite(this.handle)) await this.checkUnlocked(query);
    const send: Send = async ({ text }, values) => (await query(text, values)) as PostgresRow[];
    return {
      ...statementsOver(send, this.statements, { mayRepeat: isPGlite(this.handle) }),
      opened: { now: Number(hello.now) / 1000, sentAt: hello.sentAt },
      destroy: () => undefined,
    };
  }

  override failureOf(error: unknown): SqlFailure {
    const failure = super.failureOf(error);
    if (failure.reason !== 'unknown' || isPGlite(this.handle)) return failure;
    const hint =
      'Where the query function takes connections from the pool of the application, callers that keep them while they wait for a lock leave none for it: give postgresStore the URL instead';
    return { ...failure, detail: `${failure.detail}. ${hint}` };
  }
}
