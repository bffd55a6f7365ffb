import type { Client, QueryConfig } from 'pg';
import { conceal } from '../../../printing/conceal.js';
import { LockConfigurationError } from '../../../port/lock.errors.js';
import type { Clock } from '../../../time/clock.js';
import type { Failure } from '../sql-failure.js';
import { quoted } from '../lock-table.js';
import type { SqlDatabase, SqlSession } from '../sql-connection.js';
import { checkColumns, createTable } from './ensure-table.js';
import { connectOwn, destroy, type OwnTarget } from './own-client.js';
import { postgresFailure, sqlStateOf } from './postgres.errors.js';
import { executeBy, type PostgresRow, type Send } from './postgres.session.js';
import { isPGlite, type PGliteDatabase, type PostgresHandle } from './postgres.target.js';
import { statementsFor, type Statements } from './statements/statements.js';

interface Options {
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly table: string;
}

/** Sends a statement text and returns its rows. */
type Query = (sql: string, parameters: unknown[]) => Promise<readonly object[]>;

interface Hello {
  readonly replica: number | string;
  readonly now: number | string | bigint;
  readonly pid: number | string;
  readonly server: number | string;
  readonly columns: string | null;
}

const HELLO = `
SELECT pg_is_in_recovery()::int AS replica, (extract(epoch FROM clock_timestamp()) * 1e6)::bigint AS now,
  pg_backend_pid() AS pid, current_setting('server_version_num')::int AS server, (
    SELECT string_agg(attname || ' ' || format_type(atttypid, NULL), ',')
    FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped
  ) AS columns`;
const LEAST_SERVER = 130000;

abstract class PostgresDatabase implements SqlDatabase {
  readonly server = 'PostgreSQL';
  protected readonly statements: Statements;

  constructor(protected readonly options: Options) {
    this.statements = statementsFor(quoted(options.table, '"'));
  }

  abstract open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlSession>;

  failureOf(error: unknown): Failure {
    return postgresFailure(error);
  }

  /** Learns what this server is, and makes the table if it is missing. */
  protected async greet(query: Query): Promise<Hello & { readonly sentAt: number }> {
    const { clock, table } = this.options;
    const sentAt = clock.now();
    const [hello] = (await query(HELLO, [quoted(table, '"')])) as readonly Hello[];
    if (!hello) throw new LockConfigurationError('The query function of postgresStore returned no row.');
    checkServer(hello);
    if (hello.columns === null) await createTable((sql) => query(sql, []), table);
    else checkColumns(hello.columns, table);
    return { ...hello, sentAt };
  }

  /** A table that was dropped is made again. */
  protected sendWith(query: Query, send: Send): Send {
    return async (statement, parameters) => {
      try {
        return await send(statement, parameters);
      } catch (error) {
        if (sqlStateOf(error) !== '42P01') throw error;
        await createTable((sql) => query(sql, []), this.options.table);
        return send(statement, parameters);
      }
    };
  }
}

/** A server, over a connection of this store's own. */
export class PostgresServer extends PostgresDatabase {
  constructor(
    private readonly target: OwnTarget,
    options: Options,
  ) {
    super(options);
    conceal(this, 'target');
  }

  async open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlSession> {
    const client = await connectOwn(this.target, signal, onLost);
    const abort = () => destroy(client);
    signal.addEventListener('abort', abort);
    try {
      const query: Query = async (text, values) => (await client.query(text, values)).rows as object[];
      const hello = await this.greet(query);
      // A pooler has given this client a process id of its own.
      const isDirect = Number(hello.pid) === (client as Client & { processID: number }).processID;
      if (isDirect) await this.setUp(query, Number(hello.server));
      const send: Send = async ({ name, text }, values) => {
        const config: QueryConfig = isDirect ? { name, text, values } : { text, values };
        return (await client.query<PostgresRow>(config)).rows;
      };
      return {
        execute: executeBy(this.sendWith(query, send), this.statements),
        opened: { now: Number(hello.now) / 1000, sentAt: hello.sentAt },
        destroy: abort,
      };
    } catch (error) {
      abort();
      throw error;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  /** Not behind a pooler, which gives the same session to others. */
  private async setUp(query: Query, server: number): Promise<void> {
    const { commandTimeoutMs } = this.options;
    const settings = {
      statement_timeout: commandTimeoutMs,
      // Steps on other keys wait behind a statement that waits for a row.
      lock_timeout: Math.ceil(commandTimeoutMs / 10),
      default_transaction_isolation: 'read committed',
      ...(server >= 140000 && { idle_session_timeout: 0 }),
      // A plan for each execution takes longer than the statement, and one for a small table is wrong for a large one.
      plan_cache_mode: 'force_generic_plan',
      enable_seqscan: 'off',
      jit: 'off',
    };
    const set = Object.keys(settings).map((name, i) => `set_config('${name}', $${i + 1}, false)`);
    await query(`SELECT ${set.join(', ')}`, Object.values(settings).map(String));
  }
}

/** A database in this process, or behind a function of the application: sessions and their settings belong to it. */
export class PostgresFunction extends PostgresDatabase {
  constructor(
    private readonly handle: PGliteDatabase | PostgresHandle,
    options: Options,
  ) {
    super(options);
    conceal(this, 'handle');
  }

  async open(): Promise<SqlSession> {
    const query: Query = async (sql, parameters) => {
      const answer = await this.handle.query(sql, parameters);
      return (Array.isArray(answer) ? answer : (answer as { rows: object[] }).rows) as object[];
    };
    const hello = await this.greet(query);
    const send: Send = async ({ text }, values) => (await query(text, values)) as PostgresRow[];
    return {
      execute: executeBy(this.sendWith(query, send), this.statements, { mayRepeat: isPGlite(this.handle) }),
      opened: { now: Number(hello.now) / 1000, sentAt: hello.sentAt },
      destroy: () => undefined,
    };
  }
}

function checkServer({ replica, server }: Hello): void {
  if (Number(server) < LEAST_SERVER) {
    throw new LockConfigurationError(
      `postgresStore needs PostgreSQL 13 or later; this server is of version ${Math.floor(Number(server) / 10000)}.`,
    );
  }
  if (Number(replica) === 1) {
    throw new LockConfigurationError(
      'postgresStore was given a read replica (pg_is_in_recovery() is true), which takes no locks. Give the address of the primary.',
    );
  }
}
