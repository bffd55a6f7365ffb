import type { Socket } from 'node:net';
import type { Client, ClientConfig } from 'pg';
import { assertObject, isEmpty, targetError } from '../connection/checks.js';
import { clientPackage } from '../connection/client-package.js';
import { ServerProtocol } from '../connection/kept-connection.js';
import { KEEP_ALIVE_MS } from '../connection/timing.js';
import {
  decoded,
  readOptions,
  readParameters,
  refused,
  refuseOtherTlsNames,
  TLS_PARAMETERS,
  urlParameter,
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
 * @throws LockConfigurationError for clients of other libraries, and targets for which pg would silently connect to localhost. The
 * message does not repeat values, among which there may be a password
 */
export function checkPostgresTarget(target: unknown): asserts target is PostgresTarget {
  if (typeof target === 'string') return checkUrl(target);
  assertObject(NEEDED, target);
  if (isPool(target)) return;
  if ('connectionParameters' in target) {
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
function isPool(target: object): target is PostgresPool {
  return 'totalCount' in target && 'options' in target && 'connect' in target;
}

export function isPGlite(target: object): target is PGliteDatabase {
  return 'waitReady' in target && 'query' in target && 'listen' in target;
}

function isHandle(target: object): target is PGliteDatabase | PostgresHandle {
  return 'query' in target && typeof target.query === 'function';
}

/** Whether the store gets a function that runs its statements, and so opens no connections. */
export function isFunction(target: PostgresTarget): target is PGliteDatabase | PostgresHandle {
  return typeof target === 'object' && !isPool(target) && isHandle(target);
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

const POSTGRES = new ServerProtocol({
  server: 'PostgreSQL',
  // The server answers a request for TLS with N or S, and the startup message with R or E.
  reply: /^[NSRE]/,
  tls: 'add ?sslmode=verify-full to the URL, or give the option ssl',
});

export interface OwnTarget {
  readonly target: string | PostgresConfig | PostgresPool;
  /** How the server shows this connection, unless the application's options set another name. */
  readonly connectionName: string;
}

/**
 * Connects a new client of pg, with the settings that locks need. Sets no timeout in the startup message, because poolers reject
 * that.
 *
 * @param setUp sends the first statements. The connection counts as open when its promise resolves. `destroy` ends the client at
 * once, even if the server does not react
 */
export async function connectOwn<Opened>(
  { target, connectionName }: OwnTarget,
  { signal, onLost }: { readonly signal: AbortSignal; readonly onLost: (error: unknown) => void },
  setUp: (client: Client, destroy: () => void) => Promise<Opened>,
): Promise<Opened> {
  const pg = await clientPackage<Pg>(() => import('pg'), NO_PG);
  signal.throwIfAborted();
  const settings: PoolSettings = typeof target === 'object' && isPool(target) ? target.options : {};
  const client = newClient(pg, settings, configOf(target, connectionName));
  const { stream } = (client as unknown as { readonly connection: { readonly stream: Socket } }).connection;
  const destroy = (): void => {
    // If the server is reachable, it learns that the client leaves.
    client.end().catch(() => undefined);
    setImmediate(() => stream.destroy());
  };
  // Without a listener for `error`, Node would end the process on a lost connection.
  client.on('error', onLost);
  client.on('end', () => onLost(new Error('the connection was closed')));
  signal.addEventListener('abort', destroy);
  const strange = new Promise<never>((_, reject) => POSTGRES.watch(stream, reject));
  try {
    const connected = client.connect().then(() => setUpAsPool(target, settings, client));
    return await Promise.race([connected.then(() => setUp(client, destroy)), strange]);
  } catch (error) {
    destroy();
    throw error;
  }
}

/** The options of the next connection. Read anew for each connection, because the application may have changed the password. */
function configOf(target: OwnTarget['target'], connectionName: string): ClientConfig {
  const given = typeof target === 'string' ? { connectionString: target } : target;
  return {
    application_name: connectionName,
    ...readOptions(isPool(given) ? given.options : given),
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    // Get all values as texts: the application may have registered type parsers, which would change them.
    types: { getTypeParser: () => (value: string) => value } as unknown as NonNullable<ClientConfig['types']>,
    statement_timeout: false,
    query_timeout: undefined,
    lock_timeout: undefined,
  } as ClientConfig;
}

/** Options by which an application prepares the new clients of its pool. */
interface PoolSettings {
  readonly Client?: new (config: ClientConfig) => Client;
  readonly onConnect?: (client: Client) => unknown;
  readonly verify?: (client: Client, done: (error?: Error) => void) => void;
}

/** Makes a client of the pool's class. Uses pg's own class in place of `pg-native`, whose socket is not accessible. */
function newClient(pg: Pg, { Client: Given }: PoolSettings, config: ClientConfig): Client {
  const client = Given && new Given(config);
  return client && 'connection' in client ? client : new pg.Client(config);
}

/**
 * Calls the functions that the application's pool calls with each new client. They may choose a role or a `search_path`, without
 * which the store would find another table.
 */
async function setUpAsPool(
  target: OwnTarget['target'],
  { onConnect, verify }: PoolSettings,
  client: Client,
): Promise<void> {
  await onConnect?.(client);
  const listeners = typeof target === 'object' && isPool(target) ? target.listeners?.('connect') : undefined;
  for (const listener of listeners ?? []) {
    await (listener as (this: object, client: Client) => unknown).call(target as object, client);
  }
  if (!verify) return;
  await new Promise<void>((resolve, reject) => {
    verify(client, (error) => (error ? reject(error) : resolve()));
  });
}

type Pg = typeof import('pg');

const NO_PG =
  'postgresStore needs the package pg, which it does not find, unless it is given PGlite or { query }: npm install pg. In a bundle leave pg outside of it, and install it beside the bundle.';

const STORE = 'postgresStore';
const TLS =
  'For TLS write ?sslmode=verify-full, with sslrootcert, sslcert or sslkey where they are needed, or give the option ssl.';
const SCHEMA = "Give postgresStore the table with its schema: { table: 'app.nest_lock' }.";
const SCHEMA_NAMES = ['schema', 'currentSchema', 'search_path', 'searchPath'] as const;
const TIMEOUT = 'Leave it out, and give postgresStore the option commandTimeoutMs.';
const POOL = 'Leave it out: postgresStore opens two connections of its own, and finds a pooler by itself.';
const PATH = 'Write it as the path of the URL: postgres://user@host/database.';
const OWN = 'Leave it out: postgresStore sets up its connections itself.';

/** The parameters that a URL may have, and well-known others with advice. All the rest is rejected, too: pg would ignore it. */
export const POSTGRES_PARAMETERS: UrlParameters = {
  ...refused(TLS, ...TLS_PARAMETERS),
  ...refused(SCHEMA, ...SCHEMA_NAMES),
  ...refused(TIMEOUT, 'statement_timeout', 'query_timeout', 'lock_timeout', 'socket_timeout'),
  ...refused(TIMEOUT, 'connect_timeout', 'connectTimeout', 'connectionTimeoutMillis'),
  ...refused(TIMEOUT, 'idle_in_transaction_session_timeout'),
  ...refused(POOL, 'pgbouncer', 'connection_limit', 'pool_timeout', 'pool_size', 'max'),
  ...refused(POOL, 'statement_cache_size'),
  ...refused(PATH, 'dbname', 'database', 'db'),
  ...refused(OWN, 'binary', 'types', 'replication', 'keepAlive', 'keepalives', 'keepalives_idle', 'pipeline'),
  ...refused('Locks need the primary: give its address.', 'target_session_attrs', 'load_balance_hosts'),
  user: urlParameter.text,
  password: urlParameter.text,
  host: urlParameter.text,
  port: { takes: 'a port', read: (text) => (/^\d{1,5}$/.test(text) ? text : undefined) },
  application_name: urlParameter.text,
  fallback_application_name: urlParameter.text,
  options: urlParameter.text,
  client_encoding: sameTextOf('utf8', 'UTF8', 'utf-8', 'UTF-8'),
  ssl: sameTextOf('true', '1', 'false', '0', 'no-verify'),
  sslmode: sameTextOf('disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'),
  sslrootcert: file('. For the authorities that Node trusts leave it out'),
  sslcert: file(),
  sslkey: file(),
  sslnegotiation: sameTextOf('postgres', 'direct'),
  uselibpqcompat: sameTextOf('true', 'false'),
};

/** @throws LockConfigurationError for parameters that pg would ignore, and a URL that asks for TLS but would get none */
function checkPostgresUrl(url: string): void {
  if (url.includes('#')) throw contradictionError('it has a #, which a password must have as %23');
  const [place = '', ...queries] = url.split('?');
  const query = queries.join('?');
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
    known: ['ssl', 'sslnegotiation', 'key', 'cert', 'ca'],
    instead: 'For TLS give the option ssl: true, or ssl: { ca }.',
  });
  const given = options as Readonly<Record<string, unknown>>;
  const schema = SCHEMA_NAMES.find((name) => given[name] !== undefined);
  if (schema !== undefined) {
    throw new LockConfigurationError(`${STORE} cannot follow the option "${schema}". ${SCHEMA}`);
  }
  const { connectionString, ssl } = given;
  if (ssl && typeof connectionString === 'string' && /[?&]ssl/.test(connectionString)) {
    throw contradictionError(
      'pg takes its parameters for TLS in preference to the option ssl. Give one of them',
    );
  }
}

/** Accepts only these texts, and passes them on unchanged: pg interprets them itself. */
function sameTextOf(...texts: readonly string[]) {
  return urlParameter.oneOf(Object.fromEntries(texts.map((text) => [text, text])));
}

function file(advice = '') {
  const read = (text: string) => (text === '' || text === 'system' ? undefined : text);
  return { takes: `the path of a file${advice}`, read };
}

function contradictionError(why: string): LockConfigurationError {
  return new LockConfigurationError(`${STORE} cannot follow its URL: ${why}.`);
}
