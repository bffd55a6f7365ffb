import { assertObject, isEmpty, targetError } from '../connection/checks.js';
import {
  ANY_TEXT,
  decoded,
  oneOfTexts,
  readParameters,
  refused,
  refuseOtherTlsNames,
  TLS_PARAMETERS,
  type UrlParameters,
} from '../connection/url-parameters.js';
import { LockConfigurationError } from '../port/lock.errors.js';

/** A URL, options of `pg`, a pool of `pg` (the store copies its options), a PGlite instance, or a query function of your own. */
export type PostgresTarget = string | PostgresConfig | PostgresPool | PGliteDatabase | PostgresHandle;

/** Options of `pg` for one connection. Options for a pool have no effect here. */
export interface PostgresConfig {
  readonly connectionString?: string | undefined;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly user?: string | undefined;
  readonly password?: string | ((...args: never[]) => string | Promise<string>) | undefined;
  readonly database?: string | undefined;
  readonly ssl?: unknown;
  readonly application_name?: string | undefined;
  readonly [option: string]: unknown;
}

/** A `Pool` of `pg`. The store reads its options for each new connection of its own, and never uses the pool's connections. */
export interface PostgresPool {
  readonly options: object;
  connect(...args: never[]): unknown;
  listeners?(event: 'connect'): readonly unknown[];
  readonly totalCount: number;
}

/** Listens on a channel, and calls `onNotification` with each notification. @returns a function that stops listening */
export type Listen = (
  channel: string,
  onNotification: (payload: string) => void,
) => Promise<(...args: never[]) => Promise<void>>;

/** An embedded PostgreSQL of one process: `@electric-sql/pglite`. */
export interface PGliteDatabase {
  query(sql: string, parameters?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
  readonly listen: Listen;
  readonly waitReady: Promise<void>;
}

/** A query function of your own that runs one statement, as `SqlQuery` of the guard does. Without `listen` the store polls. */
export interface PostgresHandle {
  query(
    sql: string,
    parameters: unknown[],
  ): Promise<readonly object[] | { readonly rows: readonly object[]; readonly changed?: number }>;
  readonly listen?: Listen | undefined;
}

const NEEDED = 'postgresStore takes a URL, pg options, a pg Pool, a PGlite instance or { query }';

/**
 * Rejects clients of other libraries, and targets for which pg would silently connect to localhost. Error messages name the kind
 * of the target but not its values, among which there may be a password.
 *
 * @throws LockConfigurationError
 */
export function checkPostgresTarget(target: unknown): asserts target is PostgresTarget {
  if (typeof target === 'string') return checkUrl(target);
  assertObject(NEEDED, target);
  if (isPool(target) || isPGlite(target)) return;
  if (isClient(target)) {
    throw new LockConfigurationError(
      `${NEEDED}; it was given a connected client of pg. Locks need connections of their own: give the URL or the options that this one was made with.`,
    );
  }
  if (isHandle(target)) return;
  const { connectionString, host } = target as PostgresConfig;
  if (typeof connectionString === 'string') checkUrl(connectionString);
  else if (isEmpty(host) && isEmpty(process.env['PGHOST'])) {
    throw new LockConfigurationError(
      `${NEEDED}; the options name no server: give host or connectionString. Without them pg would use localhost.`,
    );
  }
  checkPostgresOptions(target);
}

// Do not use instanceof: the application may have another copy of pg than this library.
export function isPool(target: object): target is PostgresPool {
  return 'totalCount' in target && 'options' in target && 'connect' in target;
}

export function isPGlite(target: object): target is PGliteDatabase {
  return 'waitReady' in target && 'query' in target && 'listen' in target;
}

export function isHandle(target: object): target is PostgresHandle {
  return 'query' in target && typeof target.query === 'function';
}

/** Host, port and database for messages; no user and no password. */
export function postgresAddressOf(target: PostgresTarget): string | undefined {
  if (typeof target === 'string') return addressIn(target);
  if (isPGlite(target)) return 'PGlite';
  const config = (isPool(target) ? target.options : target) as PostgresConfig;
  if (isHandle(config)) return undefined;
  const {
    connectionString,
    host = process.env['PGHOST'],
    port = process.env['PGPORT'] ?? 5432,
    database,
  } = config;
  if (typeof connectionString === 'string') return addressIn(connectionString);
  return `${host}:${port}/${database ?? ''}`;
}

function addressIn(url: string): string {
  const { hostname, port, pathname, searchParams } = new URL(url);
  return `${hostname || (searchParams.get('host') ?? '')}:${port || 5432}${pathname}`;
}

function isClient(target: object): boolean {
  return 'connectionParameters' in target;
}

function checkUrl(url: string): void {
  if (url.trim() === '') throw targetError(NEEDED, url);
  const [, scheme] = /^([a-z][\w+.-]*):\/\//i.exec(url) ?? [];
  if (scheme === undefined || !URL.canParse(url)) {
    throw new LockConfigurationError(
      `${NEEDED}; the text it was given is no URL as postgres://user@host/database. A password in it must be written by encodeURIComponent.`,
    );
  }
  if (/^postgres(ql)?$/i.test(scheme)) return checkPostgresUrl(url);
  const instead = /^(mysql|mariadb)/.test(scheme) ? ' For MySQL and MariaDB there is mysqlStore.' : '';
  throw new LockConfigurationError(
    `${NEEDED}; the scheme of the URL is ${scheme}:, not postgres: or postgresql:.${instead}`,
  );
}

const STORE = 'postgresStore';
const TLS =
  'For TLS write ?sslmode=verify-full, with sslrootcert, sslcert or sslkey where they are needed, or give the option ssl.';
const SCHEMA = "Give postgresStore the table with its schema: { table: 'app.nest_lock' }.";
const TIMEOUT = 'Leave it out, and give postgresStore the option commandTimeoutMs.';
const POOL = 'Leave it out: postgresStore opens two connections of its own, and finds a pooler by itself.';
const PATH = 'Write it as the path of the URL: postgres://user@host/database.';
const OWN = 'Leave it out: postgresStore sets up its connections itself.';

/**
 * The parameters that a URL may have, and well-known others with the advice what to write instead. All the rest is rejected, too,
 * because pg would silently ignore it.
 */
export const POSTGRES_PARAMETERS: UrlParameters = {
  ...refused(TLS, ...TLS_PARAMETERS),
  ...refused(SCHEMA, 'schema', 'currentSchema', 'search_path', 'searchPath'),
  ...refused(TIMEOUT, 'statement_timeout', 'query_timeout', 'lock_timeout', 'socket_timeout'),
  ...refused(TIMEOUT, 'connect_timeout', 'connectTimeout', 'connectionTimeoutMillis'),
  ...refused(TIMEOUT, 'idle_in_transaction_session_timeout'),
  ...refused(POOL, 'pgbouncer', 'connection_limit', 'pool_timeout', 'pool_size', 'max'),
  ...refused(POOL, 'statement_cache_size'),
  ...refused(PATH, 'dbname', 'database', 'db'),
  ...refused(OWN, 'binary', 'types', 'replication', 'keepAlive', 'keepalives', 'keepalives_idle', 'pipeline'),
  ...refused('Locks need the primary: give its address.', 'target_session_attrs', 'load_balance_hosts'),
  user: ANY_TEXT,
  password: ANY_TEXT,
  host: ANY_TEXT,
  port: { takes: 'a port', read: (text) => (/^\d{1,5}$/.test(text) ? text : undefined) },
  application_name: ANY_TEXT,
  fallback_application_name: ANY_TEXT,
  options: ANY_TEXT,
  client_encoding: oneOfTexts({ utf8: 'utf8', UTF8: 'UTF8', 'utf-8': 'utf-8', 'UTF-8': 'UTF-8' }),
  ssl: sameTextOf('true', '1', 'false', '0', 'no-verify'),
  sslmode: sameTextOf('disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'),
  sslrootcert: file('sslrootcert'),
  sslcert: file('sslcert'),
  sslkey: file('sslkey'),
  sslnegotiation: sameTextOf('postgres', 'direct'),
  uselibpqcompat: sameTextOf('true', 'false'),
};

/** The options by which pg asks for TLS. */
const READ_BY_PG = ['ssl', 'sslnegotiation', 'key', 'cert', 'ca'];

/**
 * Rejects parameters that pg would ignore, and a URL that asks for TLS but would get a connection in plain text.
 *
 * @throws LockConfigurationError
 */
function checkPostgresUrl(url: string): void {
  const [whole] = url.split('#', 1) as [string];
  if (whole !== url) throw contradictionError('it has a #, which a password must have as %23');
  const [place = '', query = ''] = splitOnce(url, '?');
  decoded(STORE, place);
  const { ssl, sslmode, sslrootcert, sslcert, sslkey } = readParameters(STORE, query, POSTGRES_PARAMETERS);
  if (ssl !== undefined && sslmode !== undefined) {
    throw contradictionError('it has both ssl and sslmode. Write sslmode alone');
  }
  const isPlain = sslmode === 'disable' || ssl === 'false' || ssl === '0';
  if (isPlain && (sslrootcert ?? sslcert ?? sslkey) !== undefined) {
    throw contradictionError('it has a certificate for TLS, and switches TLS off');
  }
}

/** @throws LockConfigurationError for options that pg would ignore, and if a URL among the options contradicts the others */
function checkPostgresOptions(options: object): void {
  refuseOtherTlsNames(STORE, options, {
    known: READ_BY_PG,
    instead: 'For TLS give the option ssl: true, or ssl: { ca }.',
  });
  const given = options as Readonly<Record<string, unknown>>;
  for (const name of ['schema', 'currentSchema', 'search_path', 'searchPath']) {
    if (given[name] !== undefined) {
      throw new LockConfigurationError(`${STORE} cannot follow the option "${name}". ${SCHEMA}`);
    }
  }
  const { connectionString, ssl } = given;
  if (typeof connectionString !== 'string') return;
  checkPostgresUrl(connectionString);
  if (ssl && /[?&]ssl/.test(connectionString)) {
    throw contradictionError(
      'pg takes its parameters for TLS in preference to the option ssl. Give one of them',
    );
  }
}

/** Accepts only these texts. Passes them on unchanged, because pg interprets them itself. */
function sameTextOf(...texts: readonly string[]) {
  return oneOfTexts(Object.fromEntries(texts.map((text) => [text, text])));
}

function file(name: string) {
  const takes = `the path of a file${name === 'sslrootcert' ? '. For the authorities that Node trusts leave it out' : ''}`;
  return { takes, read: (text: string) => (text === '' || text === 'system' ? undefined : text) };
}

function splitOnce(text: string, mark: string): readonly string[] {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function contradictionError(why: string): LockConfigurationError {
  return new LockConfigurationError(`${STORE} cannot follow its URL: ${why}.`);
}
