import type { Connection, ConnectionOptions, Pool } from 'mysql2';
import { describeGiven } from '../../../options/describe-given.js';
import { overlay } from '../../../options/option-names.js';
import { LockConfigurationError } from '../../../port/lock.errors.js';
import { readOptions } from '../../common/connection/live-options.js';
import { refuseOtherTlsNames } from '../../common/connection/url-parameters.js';
import { assertObject } from '../../common/connection/target-checks.js';
import { optionsIn } from './mysql.url.js';

/** A URL, mysql2 options, or a mysql2 pool, whose options are copied and that stays yours. */
export type MysqlTarget = string | ConnectionOptions | Pool | PoolOfMysql2;

/** The part of a pool of mysql2, with promises or without, that is read. */
interface PoolOfMysql2 {
  readonly pool?: PoolOfMysql2;
  readonly config?: { readonly connectionConfig?: ConnectionOptions };
  listeners?(event: 'connection'): readonly ((connection: Connection) => unknown)[];
}

const NEEDED = 'mysqlStore takes a URL, mysql2 options or a mysql2 pool';

/**
 * The options of a connection to the target. Messages do not repeat what was given, because there may be a password in it.
 *
 * @throws LockConfigurationError for a target that mysql2 would take for localhost, or for another database
 */
export function connectionOptions(target: unknown): ConnectionOptions {
  if (typeof target === 'string') return optionsOfUrl(target);
  assertObject(NEEDED, target);
  const ofPool = poolOf(target)?.config?.connectionConfig;
  if (ofPool) return withoutComputed(ofPool);
  const { query, getConnection } = target as Readonly<Record<string, unknown>>;
  if (typeof query === 'function' || typeof getConnection === 'function') {
    throw new LockConfigurationError(
      `${NEEDED}; it was given ${describeGiven(target)}. Locks have a connection of their own: give the URL or the options that this one was made with.`,
    );
  }
  const { uri, ...options } = readOptions(target) as ConnectionOptions;
  refuseOtherTlsNames('mysqlStore', options, {
    known: ['ssl'],
    instead: 'For TLS give the option ssl: {}, or ssl: { ca }.',
  });
  const ofUrl: ConnectionOptions = uri === undefined ? {} : optionsOfUrl(uri);
  if (ofUrl.ssl && !options.ssl && options.ssl !== undefined) {
    throw new LockConfigurationError('mysqlStore was given a URL with TLS, and an option ssl that is none.');
  }
  const all: ConnectionOptions = overlay(ofUrl, options);
  if (!all.host && !all.socketPath && !all.stream) {
    throw new LockConfigurationError(
      `${NEEDED}; the options name no server: give host, socketPath or uri. Without them mysql2 would use localhost.`,
    );
  }
  return all;
}

/** The pool itself, where the target is one, with promises or without. */
export function poolOf(target: unknown): PoolOfMysql2 | undefined {
  if (typeof target !== 'object' || target === null) return undefined;
  const { pool, config } = target as PoolOfMysql2;
  if (config?.connectionConfig) return target;
  return pool?.config?.connectionConfig ? pool : undefined;
}

/** The address of the server, without user and password. */
export function mysqlAddressOf({ host, port = 3306, socketPath, database = '' }: ConnectionOptions): string {
  return `${socketPath ?? `${host}:${port}`}/${database}`;
}

/** A pool adds computed values to its options. mysql2 warns of these values when they are given as options. */
function withoutComputed(options: ConnectionOptions): ConnectionOptions {
  const { clientFlags: _flags, maxPacketSize: _size, ...given } = readOptions(options);
  return given;
}

function optionsOfUrl(url: string): ConnectionOptions {
  const [, scheme] = /^([a-z][\w+.-]*):\/\//i.exec(url) ?? [];
  if (scheme !== undefined && !/^(mysqlx?|mariadb)$/i.test(scheme)) {
    throw new LockConfigurationError(
      `${NEEDED}; the scheme of the URL is ${scheme}:, not mysql: or mariadb:.${scheme.startsWith('postgres') ? ' For PostgreSQL write postgresStore(…).' : ''}`,
    );
  }
  const parsed = scheme !== undefined && URL.canParse(url) ? new URL(url) : undefined;
  // A password that holds a "?" or a "#" ends the host there.
  if (!parsed?.hostname || parsed.hash !== '' || parsed.search.includes('@')) {
    throw new LockConfigurationError(
      `${NEEDED}; the text it was given is no URL with a host. A password in it must be written by encodeURIComponent.`,
    );
  }
  return optionsIn(parsed);
}

/** The options with a name for the connection, which `performance_schema` shows, unless they have one. */
export function withProgramName(options: ConnectionOptions, connectionName: string): ConnectionOptions {
  const attributes = { program_name: connectionName, ...options.connectAttributes };
  return { ...options, connectAttributes: attributes } as ConnectionOptions;
}
