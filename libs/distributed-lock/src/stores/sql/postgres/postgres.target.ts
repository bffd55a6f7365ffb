import { LockConfigurationError } from '../../../port/lock.errors.js';
import { assertObject, isEmpty, refusedTarget } from '../../common/connection/target-checks.js';
import { checkPostgresOptions, checkPostgresUrl } from './postgres.url.js';

/** A URL, options of `pg`, a pool of `pg` whose options are copied, a PGlite instance, or a statement function of your own. */
export type PostgresTarget = string | PostgresConfig | PostgresPool | PGliteDatabase | PostgresHandle;

/** The options of `pg` for one connection. Options of its pool do nothing here. */
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

/** A `Pool` of `pg`. Its options are read for each connection, and its connections are never used. */
export interface PostgresPool {
  readonly options: object;
  connect(...args: never[]): unknown;
  listeners?(event: 'connect'): readonly unknown[];
  readonly totalCount: number;
}

/** Gets each notification on a channel. @returns a function that stops listening */
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

/** A statement function of your own, as `SqlQuery` of the guard. Without `listen` the store polls. */
export interface PostgresHandle {
  query(
    sql: string,
    parameters: unknown[],
  ): Promise<readonly object[] | { readonly rows: readonly object[]; readonly changed?: number }>;
  readonly listen?: Listen | undefined;
}

const NEEDED = 'postgresStore takes a URL, pg options, a pg Pool, a PGlite instance or { query }';

/**
 * Refuses targets that pg would take for localhost, and clients of other libraries. Says what was given, and never the
 * values of it: there may be a password among them.
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

// Not by instanceof: the application may have another copy of pg than this package sees.
export function isPool(target: object): target is PostgresPool {
  return 'totalCount' in target && 'options' in target && 'connect' in target;
}

export function isPGlite(target: object): target is PGliteDatabase {
  return 'waitReady' in target && 'query' in target && 'listen' in target;
}

export function isHandle(target: object): target is PostgresHandle {
  return 'query' in target && typeof target.query === 'function';
}

/** Host, port and database for messages, without user and password. */
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
  if (url.trim() === '') throw refusedTarget(NEEDED, url);
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
