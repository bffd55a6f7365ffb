import { LockConfigurationError } from '../port/lock.errors.js';
import { missingTableError, quoted, type SqlAccess, type SqlDatabaseOptions } from '../sql/lock-table.js';
import type { SqlDatabase, SqlFailure, SqlLink } from '../sql/database.js';
import { checkPostgresTable, createTable } from './table.js';
import { postgresFailure } from './failures.js';
import { statementsFor, type PostgresStatements } from './statements.js';

/**
 * Asks for everything that `open` must know of the server and of the lock table. Uses the parameter `$1` only once, because some
 * ORMs number the parameters of a statement anew.
 */
const HELLO = `
SELECT pg_is_in_recovery()::int AS replica, current_setting('transaction_read_only') AS readonly,
  (extract(epoch FROM clock_timestamp()) * 1e6)::bigint AS now,
  pg_backend_pid() AS pid, current_setting('server_version_num')::int AS server, (
    SELECT string_agg(attname || ' ' || format_type(atttypid, NULL), ',')
    FROM pg_attribute WHERE attrelid = own AND attnum > 0 AND NOT attisdropped
  ) AS columns, (
    SELECT nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = own
  ) AS schema, (
    SELECT string_agg(nspname, ',' ORDER BY nspname)
    FROM pg_class AS c JOIN pg_class AS other ON other.relname = c.relname AND other.oid <> c.oid
      JOIN pg_namespace AS n ON n.oid = other.relnamespace
    WHERE c.oid = own AND 7 = (
      SELECT count(*) FROM pg_attribute WHERE attrelid = other.oid
        AND attname IN ('name', 'version', 'state', 'last', 'at', 'clients', 'notes'))
  ) AS others
FROM (SELECT to_regclass($1) AS own OFFSET 0) AS t`;
const MIN_SERVER = 130000;
const REPLICA =
  'postgresStore was given a read replica (pg_is_in_recovery() is true), which takes no locks. Give the address of the primary.';
const READ_ONLY =
  'The transactions of the user of postgresStore are read-only: default_transaction_read_only is on for this user, this database or the whole server. Every lock is a write: ALTER ROLE … SET default_transaction_read_only = off, or give another user.';

export abstract class PostgresDatabase implements SqlDatabase {
  readonly server = 'PostgreSQL';
  readonly access: SqlAccess;
  protected readonly statements: PostgresStatements;
  /** How long a statement waits for a locked row, in ms. Short, because requests for other keys wait until the statement is done. */
  protected readonly lockTimeoutMs: number;
  private tookWrites = false;
  private schema: string | undefined;

  constructor(protected readonly options: DatabaseOptions) {
    this.access = options.access;
    this.lockTimeoutMs = Math.ceil(options.commandTimeoutMs / 10);
    this.statements = statementsFor(quoted(options.table, '"'), this.lockTimeoutMs);
  }

  /** The name of the lock table, with its schema as soon as the server has told it. */
  get location(): string {
    const { table } = this.options;
    return this.schema === undefined || table.includes('.') ? table : `${this.schema}.${table}`;
  }

  abstract open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlLink>;

  failureOf(error: unknown): SqlFailure {
    return postgresFailure(error);
  }

  /**
   * Checks the server and the lock table. Creates the table if it is missing.
   *
   * @throws LockConfigurationError for a server or a table that cannot keep locks, and for a missing table that the store may not
   * create
   */
  protected async greet(query: Query): Promise<Hello & { readonly sentAt: number }> {
    const { clock, table } = this.options;
    const sentAt = clock.now();
    const hello = await this.ask(query);
    this.checkServer(hello);
    if (hello.columns === null) {
      if (this.access !== 'create') throw missingTableError({ store: 'postgresStore', table });
      await createTable((sql) => query(this.givenUpSoon(sql), []), table);
      this.onTable(await this.ask(query));
    } else {
      await checkPostgresTable(query, table);
      this.onTable(hello);
    }
    return { ...hello, sentAt };
  }

  /**
   * Fails soon if another transaction has locked the whole table. A statement sets its own `lock_timeout` only after it has got
   * past such a lock. On a connection without that timeout, as behind a pooler, it would wait for ever, and each new attempt would
   * leave another waiting connection behind.
   */
  protected async checkUnlocked(query: Query): Promise<void> {
    const mode = this.access === 'read' ? 'ACCESS SHARE' : 'ROW EXCLUSIVE';
    const lock = `LOCK TABLE ${quoted(this.options.table, '"')} IN ${mode} MODE`;
    await query(this.givenUpSoon(lock), []);
  }

  private async ask(query: Query): Promise<Hello> {
    const [hello] = (await query(HELLO, [quoted(this.options.table, '"')])) as readonly Hello[];
    if (!hello) throw new LockConfigurationError('The query function of postgresStore returned no row.');
    return hello;
  }

  /** Wraps a statement so that it waits at most `lockTimeoutMs` for locks of other transactions. */
  private givenUpSoon(sql: string): string {
    return `DO $do$ BEGIN PERFORM set_config('lock_timeout', '${this.lockTimeoutMs}', true); ${sql}; END $do$`;
  }

  /**
   * Remembers the schema of the table. Warns if other schemas have lock tables, too: two processes whose roles find different
   * tables do not exclude each other.
   */
  private onTable({ schema, others }: Hello): void {
    const { table, onWarning } = this.options;
    const isFirst = this.schema === undefined;
    this.schema = schema ?? undefined;
    if (!isFirst || others === null || table.includes('.')) return;
    const elsewhere = others.split(',').map((other) => `${other}.${table}`);
    onWarning?.(
      `The locks of this process are in the table ${this.location}, and this database has other lock tables: ${elsewhere.join(', ')}. A process whose role finds one of those is not excluded. Give postgresStore of all processes the same table with its schema, as { table: '${this.location}' }.`,
    );
  }

  /**
   * @throws LockConfigurationError for a server that is too old or takes no writes. If the store could write earlier, the server
   * is probably failing over: then throws an error after which the store connects again
   */
  private checkServer({ replica, readonly, server }: Hello): void {
    if (Number(server) < MIN_SERVER) {
      throw new LockConfigurationError(
        `postgresStore needs PostgreSQL 13 or later; this server is of version ${Math.floor(Number(server) / 10000)}.`,
      );
    }
    if (this.access === 'read') return;
    const isReplica = Number(replica) === 1;
    const takesWrites = !isReplica && readonly !== 'on';
    if (takesWrites) this.tookWrites = true;
    else if (this.tookWrites) throw Object.assign(new Error('it takes no writes now'), { code: '25006' });
    else throw new LockConfigurationError(isReplica ? REPLICA : READ_ONLY);
  }
}

export interface DatabaseOptions extends SqlDatabaseOptions {
  readonly onWarning?: ((message: string) => void) | undefined;
  readonly commandTimeoutMs: number;
}

export type Query = (sql: string, parameters: unknown[]) => Promise<readonly object[]>;

interface Hello {
  readonly replica: number | string;
  /** `on` if transactions of this user are read-only by default, else `off`. */
  readonly readonly: string;
  readonly now: number | string | bigint;
  readonly pid: number | string;
  readonly server: number | string;
  readonly columns: string | null;
  readonly schema: string | null;
  /** Other schemas that have a lock table of the same name, with commas between them; `null` if there are none. */
  readonly others: string | null;
}
