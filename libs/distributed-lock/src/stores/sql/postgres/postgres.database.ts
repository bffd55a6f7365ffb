import { LockConfigurationError } from '../../../port/lock.errors.js';
import type { Clock } from '../../../time/clock.js';
import type { Failure } from '../sql-failure.js';
import { quoted } from '../lock-table.js';
import type { SqlDatabase, SqlSession } from '../sql-connection.js';
import { checkColumns, createTable } from './ensure-table.js';
import { postgresFailure, sqlStateOf } from './postgres.errors.js';
import type { Send } from './postgres.session.js';
import { statementsFor, type Statements } from './statements/statements.js';

export interface DatabaseOptions {
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly table: string;
}

/** Sends a statement text and returns its rows. */
export type Query = (sql: string, parameters: unknown[]) => Promise<readonly object[]>;

export interface Hello {
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

export abstract class PostgresDatabase implements SqlDatabase {
  readonly server = 'PostgreSQL';
  protected readonly statements: Statements;
  private wasPrimary = false;

  constructor(protected readonly options: DatabaseOptions) {
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
    this.checkServer(hello);
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

  /** A replica is a mistake in the program, unless this store has had a primary: then a failover is under way. */
  private checkServer({ replica, server }: Hello): void {
    if (Number(server) < LEAST_SERVER) {
      throw new LockConfigurationError(
        `postgresStore needs PostgreSQL 13 or later; this server is of version ${Math.floor(Number(server) / 10000)}.`,
      );
    }
    if (Number(replica) === 0) this.wasPrimary = true;
    else if (this.wasPrimary) throw Object.assign(new Error('it is a replica now'), { code: '25006' });
    else {
      throw new LockConfigurationError(
        'postgresStore was given a read replica (pg_is_in_recovery() is true), which takes no locks. Give the address of the primary.',
      );
    }
  }
}
