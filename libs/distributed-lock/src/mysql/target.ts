import type { Connection, ConnectionOptions, Pool } from 'mysql2';
import { assertObject } from '../connection/checks.js';
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
import { describeGiven, overlay } from '../port/option-checks.js';

/** A URL, mysql2 options, or a mysql2 pool, which stays yours: the store only copies its options. */
export type MysqlTarget = string | ConnectionOptions | Pool | PoolOfMysql2;

/** The parts of a mysql2 pool that the store reads. A pool with promises has the plain pool in `pool`. */
interface PoolOfMysql2 {
  readonly pool?: PoolOfMysql2;
  readonly config?: { readonly connectionConfig?: ConnectionOptions };
  listeners?(event: 'connection'): readonly ((connection: Connection) => unknown)[];
}

const NEEDED = 'mysqlStore takes a URL, mysql2 options or a mysql2 pool';

/**
 * The options with which to connect to the target. Error messages do not repeat what was given, because it may contain a password.
 *
 * @throws LockConfigurationError for a target for which mysql2 would silently connect to localhost or to another database
 */
export function connectionOptions(target: unknown): ConnectionOptions {
  if (typeof target === 'string') return optionsOfUrl(target);
  assertObject(NEEDED, target);
  const ofPool = poolOf(target)?.config?.connectionConfig;
  if (ofPool) {
    // Leave out what the pool has computed: if mysql2 gets that as options, it prints warnings.
    const { clientFlags: _flags, maxPacketSize: _size, ...given } = readOptions(ofPool);
    return given;
  }
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

/** The plain pool, if the target is a pool with or without promises. */
export function poolOf(target: unknown): PoolOfMysql2 | undefined {
  if (typeof target !== 'object' || target === null) return undefined;
  const { pool, config } = target as PoolOfMysql2;
  if (config?.connectionConfig) return target;
  return pool?.config?.connectionConfig ? pool : undefined;
}

/** Host, port and database for messages; no user and no password. */
export function mysqlAddressOf({ host, port = 3306, socketPath, database = '' }: ConnectionOptions): string {
  return `${socketPath ?? `${host}:${port}`}/${database}`;
}

function optionsOfUrl(url: string): ConnectionOptions {
  const [, scheme] = /^([a-z][\w+.-]*):\/\//i.exec(url) ?? [];
  if (scheme !== undefined && !/^(mysqlx?|mariadb)$/i.test(scheme)) {
    throw new LockConfigurationError(
      `${NEEDED}; the scheme of the URL is ${scheme}:, not mysql: or mariadb:.${scheme.startsWith('postgres') ? ' For PostgreSQL write postgresStore(…).' : ''}`,
    );
  }
  const parsed = scheme !== undefined && URL.canParse(url) ? new URL(url) : undefined;
  // A "?" or "#" that is not encoded in a password makes the URL parser end the host there.
  if (!parsed?.hostname || parsed.hash !== '' || parsed.search.includes('@')) {
    throw new LockConfigurationError(
      `${NEEDED}; the text it was given is no URL with a host. A password in it must be written by encodeURIComponent.`,
    );
  }
  return optionsIn(parsed);
}

const STORE = 'mysqlStore';
const TLS_ADVICE = 'For TLS write ?ssl=true, or give the option ssl: { ca }.';
const OWN = 'Leave it out: mysqlStore sets up its connection itself.';
const TIMEOUT = 'Leave it out, and give mysqlStore the option commandTimeoutMs.';
const POOL = 'Leave it out: mysqlStore has one connection of its own.';
const PLACE = 'Write it in the URL: mysql://user:password@host:port/database.';

/** `true` means TLS with the certificate authorities that Node trusts. The rest is as in mysql2 itself. */
const SSL = {
  takes: 'true, false, options of TLS in JSON as {"rejectUnauthorized":true}, or Amazon RDS',
  read: (text: string) => {
    const words = { true: {}, 1: {}, false: false, 0: false, 'Amazon RDS': 'Amazon RDS' };
    return Object.hasOwn(words, text) ? words[text as keyof typeof words] : jsonObject(text);
  },
};

/** The parameters that a URL may have, and well-known others with advice. All the rest is rejected, too: mysql2 would ignore it. */
export const MYSQL_PARAMETERS: UrlParameters = {
  ...refused(TLS_ADVICE, ...TLS_PARAMETERS),
  ...refused(OWN, 'multipleStatements', 'namedPlaceholders', 'queryFormat', 'typeCast', 'trace', 'debug'),
  ...refused(OWN, 'rowsAsArray', 'nestTables', 'dateStrings', 'decimalNumbers', 'bigNumberStrings'),
  ...refused(OWN, 'supportBigNumbers', 'timezone', 'charset', 'charsetNumber', 'flags'),
  ...refused(OWN, 'enableKeepAlive', 'keepAliveInitialDelay'),
  ...refused(TIMEOUT, 'connectTimeout', 'connect_timeout', 'socket_timeout', 'timeout', 'acquireTimeout'),
  ...refused(POOL, 'connectionLimit', 'connection_limit', 'pool_timeout', 'waitForConnections', 'queueLimit'),
  ...refused(PLACE, 'host', 'port', 'user', 'password', 'database', 'db', 'schema'),
  ssl: SSL,
  socketPath: urlParameter.text,
  localAddress: urlParameter.text,
  compress: urlParameter.trueOrFalse,
  insecureAuth: urlParameter.trueOrFalse,
  enableCleartextPlugin: urlParameter.trueOrFalse,
  password2: urlParameter.text,
  password3: urlParameter.text,
  passwordSha1: urlParameter.text,
  connectAttributes: { takes: 'an object in JSON', read: jsonObject },
  maxPreparedStatements: urlParameter.wholeNumber,
};

/** @throws LockConfigurationError for a part of the URL that the store cannot follow */
function optionsIn(url: URL): ConnectionOptions {
  const { hostname, port, pathname, username, password, search } = url;
  return {
    host: decoded(STORE, hostname.replace(/^\[(.*)\]$/, '$1')),
    ...(port !== '' && { port: Number(port) }),
    user: decoded(STORE, username),
    password: decoded(STORE, password),
    database: decoded(STORE, pathname.slice(1)),
    ...(readParameters(STORE, search, MYSQL_PARAMETERS) as ConnectionOptions),
  };
}

function jsonObject(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
