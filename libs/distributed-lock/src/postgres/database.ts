import type { Client, QueryConfig } from 'pg';
import { conceal } from '../common/redaction.js';
import { textOf } from '../connection/connection-errors.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { SqlDatabase, SqlFailure, SqlLink } from '../sql/database.js';
import type { Columns, TableShape } from '../sql/lock-table.js';
import type { SqlContext } from '../sql/store.js';
import { PostgresLink, sqlStateOf } from './statements.js';
import { connectOwn, isPGlite, type OwnTarget, type PGliteDatabase, type PostgresHandle } from './target.js';

/** Asks about the server and the lock table. Uses `$1` only once, because some ORMs number the parameters of a statement anew. */
const HELLO = `
SELECT pg_is_in_recovery()::int AS replica, current_setting('transaction_read_only') AS readonly,
  (extract(epoch FROM clock_timestamp()) * 1e6)::bigint AS now,
  pg_backend_pid() AS pid, current_setting('server_version_num')::int AS server, (
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

/** The SQLSTATEs of a CREATE TABLE that meets a table which another process has created at the same moment. */
const EXISTS = ['23505', '42P07', '42710'];
/** The SQLSTATEs of a CREATE TABLE that this user may not execute here. */
const NOT_ALLOWED = ['42501', '3F000', '25006'];

abstract class PostgresDatabase<Target> implements SqlDatabase {
  readonly server = 'PostgreSQL';
  /** How long a statement waits for a locked row, in ms. Short, because requests for other keys wait until the statement is done. */
  protected readonly lockTimeoutMs: number;
  private tookWrites = false;
  private schema: string | undefined;

  constructor(
    protected readonly target: Target,
    protected readonly context: SqlContext,
  ) {
    conceal(this, 'target');
    this.lockTimeoutMs = Math.ceil(context.commandTimeoutMs / 10);
  }

  /** The name of the lock table, with its schema as soon as the server has told it. */
  get location(): string {
    const { name } = this.context.table;
    return this.schema === undefined || name.includes('.') ? name : `${this.schema}.${name}`;
  }

  abstract open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlLink>;

  failureOf(error: unknown): SqlFailure {
    return postgresFailure(error);
  }

  /**
   * Checks the server and the lock table. Creates the table if it is missing.
   *
   * @throws LockConfigurationError for a server or a table that cannot keep locks
   */
  protected async greet(query: Query): Promise<Hello & Pick<SqlLink, 'opened'>> {
    const { clock, table, access } = this.context;
    const sentAt = clock.now();
    const hello = await this.ask(query);
    this.checkServer(hello);
    if (hello.schema === null) {
      if (access !== 'create') throw table.missingError();
      await this.createTable(query);
      this.onTable(await this.ask(query));
    } else {
      const [row] = (await query(SHAPE, [table.quoted])) as readonly { readonly shape: string }[];
      // Without a row, the table was dropped a moment ago. Do not report that here: the first statement fails, and the next
      // connection creates the table.
      if (row) table.check(JSON.parse(row.shape) as TableShape, COLUMNS);
      this.onTable(hello);
    }
    return { ...hello, opened: { now: Number(hello.now) / 1000, sentAt } };
  }

  protected linkOver(
    send: LinkParts['send'],
    { opened }: Pick<SqlLink, 'opened'>,
    parts: Pick<LinkParts, 'mayReuseParameters' | 'destroy'>,
  ): SqlLink {
    const { lockTimeoutMs } = this;
    return new PostgresLink({ ...parts, send, opened, table: this.context.table.quoted, lockTimeoutMs });
  }

  /**
   * Fails soon if another transaction has locked the whole table. Our statements set their own `lock_timeout` only after they have
   * got past such a lock. Behind a pooler they would wait for ever, each new attempt on another connection.
   */
  protected async checkUnlocked(query: Query): Promise<void> {
    const { access, table } = this.context;
    const mode = access === 'read' ? 'ACCESS SHARE' : 'ROW EXCLUSIVE';
    await query(this.givenUpSoon(`LOCK TABLE ${table.quoted} IN ${mode} MODE`), []);
  }

  private async createTable(query: Query): Promise<void> {
    const { table } = this.context;
    try {
      await query(this.givenUpSoon(table.sql), []);
    } catch (cause) {
      const state = sqlStateOf(cause) ?? '';
      if (EXISTS.includes(state)) return;
      throw NOT_ALLOWED.includes(state) ? table.notMadeError(` (${state}).`, cause) : cause;
    }
  }

  private async ask(query: Query): Promise<Hello> {
    const [hello] = (await query(HELLO, [this.context.table.quoted])) as readonly Hello[];
    if (!hello) throw new LockConfigurationError('The query function of postgresStore returned no row.');
    return hello;
  }

  /** Lets a statement wait at most `lockTimeoutMs` for locks of other transactions. */
  private givenUpSoon(sql: string): string {
    return `DO $do$ BEGIN PERFORM set_config('lock_timeout', '${this.lockTimeoutMs}', true); ${sql}; END $do$`;
  }

  /**
   * Remembers the schema of the table. Warns if other schemas have lock tables, too: two processes whose roles find different
   * tables do not exclude each other.
   */
  private onTable({ schema, others }: Hello): void {
    const { table, onWarning } = this.context;
    const isFirst = this.schema === undefined;
    this.schema = schema ?? undefined;
    if (!isFirst || others === null || table.name.includes('.')) return;
    const elsewhere = others.split(',').map((other) => `${other}.${table.name}`);
    onWarning?.(
      `The locks of this process are in the table ${this.location}, and this database has other lock tables: ${elsewhere.join(', ')}. A process whose role finds one of those is not excluded. Give postgresStore of all processes the same table with its schema, as { table: '${this.location}' }.`,
    );
  }

  /**
   * @throws LockConfigurationError for a server that is too old or takes no writes. If the store could write earlier, the server
   * is probably failing over, and the error lets the store connect again
   */
  private checkServer({ replica, readonly, server }: Hello): void {
    if (Number(server) < MIN_SERVER) {
      throw new LockConfigurationError(
        `postgresStore needs PostgreSQL 13 or later; this server is of version ${Math.floor(Number(server) / 10000)}.`,
      );
    }
    if (this.context.access === 'read') return;
    const isReplica = Number(replica) === 1;
    const takesWrites = !isReplica && readonly !== 'on';
    if (takesWrites) this.tookWrites = true;
    else if (this.tookWrites) throw Object.assign(new Error('it takes no writes now'), { code: '25006' });
    else throw new LockConfigurationError(isReplica ? REPLICA : READ_ONLY);
  }
}

type LinkParts = ConstructorParameters<typeof PostgresLink>[0];

type Query = (sql: string, parameters: unknown[]) => Promise<readonly object[]>;

interface Hello {
  readonly replica: number | string;
  /** `on` if transactions of this user are read-only by default, else `off`. */
  readonly readonly: string;
  readonly now: number | string | bigint;
  readonly pid: number | string;
  readonly server: number | string;
  /** The schema of the lock table; `null` if the table is missing. */
  readonly schema: string | null;
  /** Other schemas that have a lock table of the same name, with commas between them; `null` if there are none. */
  readonly others: string | null;
}

/** SQLSTATEs that reveal a pooler: the statement is not prepared on this server connection, or another client has prepared it there. */
const NOT_PREPARED = ['26000', '42P05'];

/** A PostgreSQL server, on a connection that the store opens itself. */
export class PostgresServer extends PostgresDatabase<OwnTarget> {
  open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlLink> {
    return connectOwn(this.target, { signal, onLost }, (client, destroy) => this.linkOf(client, destroy));
  }

  private async linkOf(client: Client, destroy: () => void): Promise<SqlLink> {
    const query: Query = async (text, values) => (await client.query(text, values)).rows as object[];
    const hello = await this.greet(query);
    // Behind a pooler, the server's process id differs from the one that the client got when it connected.
    let isDirect = Number(hello.pid) === (client as Client & { processID: number }).processID;
    if (isDirect) await this.setUp(query, Number(hello.server));
    else await this.checkUnlocked(query);
    const rowsOf = ({ rows }: { readonly rows: readonly object[] }) => rows;
    const execute = (config: QueryConfig) => client.query<object>(config).then(rowsOf);
    const send: LinkParts['send'] = ({ name, text }, values) => {
      if (!isDirect) return execute({ text, values });
      return client.query<object>({ name, text, values }).then(rowsOf, (error) => {
        if (!NOT_PREPARED.includes(sqlStateOf(error) ?? '')) throw error;
        isDirect = false;
        return execute({ text, values });
      });
    };
    return this.linkOver(send, hello, { mayReuseParameters: true, destroy });
  }

  /** Changes settings of the session. Not called behind a pooler, which would later give the session to other clients. */
  private async setUp(query: Query, server: number): Promise<void> {
    const settings = {
      statement_timeout: this.context.commandTimeoutMs,
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

/** PGlite, or a database behind a query function of the application. Its sessions and their settings are not ours to change. */
export class PostgresFunction extends PostgresDatabase<PGliteDatabase | PostgresHandle> {
  async open(): Promise<SqlLink> {
    const query: Query = async (sql, parameters) => {
      const answer = await this.target.query(sql, parameters);
      return (Array.isArray(answer) ? answer : (answer as { rows: object[] }).rows) as object[];
    };
    const hello = await this.greet(query);
    if (!isPGlite(this.target)) await this.checkUnlocked(query);
    const send: LinkParts['send'] = ({ text }, values) => query(text, values);
    const mayReuseParameters = isPGlite(this.target);
    return this.linkOver(send, hello, { mayReuseParameters, destroy: () => undefined });
  }

  override failureOf(error: unknown): SqlFailure {
    const failure = super.failureOf(error);
    if (failure.reason !== 'unknown' || isPGlite(this.target)) return failure;
    const hint =
      'Where the query function takes connections from the pool of the application, callers that keep them while they wait for a lock leave none for it: give postgresStore the URL instead';
    return { ...failure, detail: `${failure.detail}. ${hint}` };
  }
}

/**
 * Names must be compared byte by byte. Another collation may treat two names as equal. It may also change with an update of the
 * operating system, and the index then no longer finds its rows.
 */
const NAME = { type: 'text COLLATE C', matches: /^text COLLATE (C|POSIX)$/ };
const NUMBER = { type: 'bigint', matches: /^bigint$/ };
const TEXT = { type: 'text', matches: /^text( COLLATE .*)?$/ };
const COLUMNS: Columns = {
  name: NAME,
  version: NUMBER,
  state: TEXT,
  last: NUMBER,
  at: NUMBER,
  clients: TEXT,
  notes: TEXT,
};

const COLLATION = (oid: string) => `(SELECT ' COLLATE ' || collname FROM pg_collation WHERE oid = ${oid})`;
const SHAPE = `
SELECT json_build_object(
  'faults', array_remove(ARRAY[
    CASE relkind WHEN 'r' THEN NULL WHEN 'v' THEN 'it is a view' WHEN 'p' THEN 'it is partitioned' ELSE 'it is no table' END,
    CASE relpersistence WHEN 'u' THEN 'it is unlogged: a crash empties it' WHEN 't' THEN 'it is temporary' END,
    CASE WHEN EXISTS (SELECT FROM pg_inherits WHERE c.oid IN (inhparent, inhrelid)) THEN 'it inherits, or others inherit it' END,
    CASE WHEN row_security_active(c.oid) THEN 'a policy of row level security hides rows from this user' END
  ], NULL),
  'columns', ARRAY(
    SELECT json_build_object('name', attname,
      'type', format_type(atttypid, atttypmod) || coalesce(${COLLATION('attcollation')}, '') ||
        CASE WHEN attgenerated <> '' OR attidentity = 'a' THEN ' GENERATED' ELSE '' END,
      'isNullable', NOT attnotnull, 'mustBeGiven', attnotnull AND NOT atthasdef AND attidentity = '')
    FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum
  ),
  'uniqueKeys', ARRAY(
    SELECT json_build_object('name', k.relname,
      'columns', ARRAY(
        SELECT attname FROM unnest(indkey::int2[]) WITH ORDINALITY AS part (num, i)
          LEFT JOIN pg_attribute ON attrelid = c.oid AND attnum = num AND num > 0
        WHERE i <= indnkeyatts ORDER BY i),
      'isComplete', indisvalid AND indimmediate AND indpred IS NULL
        AND ${COLLATION('indcollation[0]')} IN (' COLLATE C', ' COLLATE POSIX'))
    FROM pg_index JOIN pg_class AS k ON k.oid = indexrelid WHERE indrelid = c.oid AND indisunique
  )
)::text AS shape FROM pg_class AS c WHERE c.oid = to_regclass($1)`;

const OWN_WORDS: Readonly<Record<string, SqlFailure>> = {
  '25006': unready(
    'it takes no writes now (25006): a read replica, a primary that is being replaced, or default_transaction_read_only is on',
    { isFatal: true },
  ),
  '53300': unready('it has no connection left (53300). Raise max_connections', { isFatal: true }),
  '57014': unready('the statement was cancelled, mostly by a timeout (57014)'),
  '55P03': unready('another transaction holds the row of the lock, or the lock table, for too long (55P03)', {
    mayBeOne: true,
    mayRepeat: true,
    isBlocked: true,
  }),
  // The table was dropped: connect again, because each new connection creates a missing table.
  '42P01': unready('the lock table was dropped (42P01)', { mayRepeat: true, isFatal: true }),
  '28P01': refused('user or password is wrong (28P01)', { isFatal: true }),
  '42501': refused('its user lacks SELECT, INSERT, UPDATE or DELETE on the lock table (42501)'),
  '40001': unready('other transactions came first, again and again (40001)', { mayRepeat: true }),
  '40P01': unready('other transactions came first, again and again (40P01)', { mayRepeat: true }),
};

function unready(detail: string, flags: Partial<SqlFailure> = {}): SqlFailure {
  return { reason: 'unready', detail, ...flags };
}

function refused(detail: string, flags: Partial<SqlFailure> = {}): SqlFailure {
  return { reason: 'refused', detail, ...flags };
}

/** Matches the message of a server that accepts this user only with TLS. */
const NO_TLS = /no encryption|SSL off/;
/** Matches SQLSTATEs of a server that rejects this client, because of its user, or because the database does not exist. */
const NOT_LET_IN = /^(28|3D)/;
/** Matches SQLSTATEs of a server that has ended the connection or has failed. It may have committed the statement before. */
const ENDED = /^(08|40003|57P0[12]|58|XX)/;
/** Matches SQLSTATEs of a server that lacks a resource, is starting or is stopping. It has not executed the statement. */
const NOT_NOW = /^(53|57|72)/;

function postgresFailure(error: unknown): SqlFailure {
  const state = sqlStateOf(error);
  const message = textOf(error);
  if (state === undefined) return { reason: 'unknown', detail: message, isFatal: true };
  const known = OWN_WORDS[state];
  if (known) return known;
  const advice = NO_TLS.test(message)
    ? '. Connect with TLS: add ?sslmode=verify-full to the URL, or give the option ssl'
    : '';
  const detail = `${message} (${state})${advice}`;
  if (ENDED.test(state)) return { reason: 'unknown', detail, isFatal: true };
  if (NOT_NOW.test(state)) return unready(detail, { isFatal: true });
  return refused(detail, NOT_LET_IN.test(state) ? { isFatal: true } : { mayBeOne: true });
}
