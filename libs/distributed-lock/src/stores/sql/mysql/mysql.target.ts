import type { ConnectionOptions, Pool } from 'mysql2';
import { checkOptionNames } from '../../../options/option-names.js';
import { describeGiven } from '../../../options/describe-given.js';
import { LockConfigurationError } from '../../../port/lock.errors.js';
import type { MysqlHandle } from './mysql.handle.js';

/** The part of a pool of mysql2, with promises or without, that is read. */
interface PoolOfMysql2 {
  readonly pool?: PoolOfMysql2;
  readonly config?: { readonly connectionConfig?: ConnectionOptions };
}

/** A URL, mysql2 options, a mysql2 pool whose options are copied and that stays yours, or a tool of yours. */
export type MysqlTarget = string | ConnectionOptions | Pool | PoolOfMysql2 | MysqlHandle;

const NEEDED = 'mysqlStore takes a URL, mysql2 options, a mysql2 pool or { query }';

/** Options of mysql2 that say where to connect to, as whom and how. */
const TAKEN_OVER =
  wordsOf(`host port socketPath localAddress user password password1 password2 password3 passwordSha1
  database ssl insecureAuth authPlugins authSwitchHandler enableCleartextPlugin connectAttributes compress stream
  disableEval uri`);
/** Its options about values, statements and pools. They may be given, and do nothing here. */
const OTHERS =
  wordsOf(`Promise bigNumberStrings charset charsetNumber connectTimeout connectionLimit dateStrings debug
  decimalNumbers enableKeepAlive flags gracefulEnd idleTimeout infileStreamFactory jsonStrings keepAliveInitialDelay
  maxIdle maxPreparedStatements multipleStatements namedPlaceholders nestTables pool queryFormat queueLimit
  resetOnRelease rowsAsArray stringifyObjects supportBigNumbers timezone trace typeCast waitForConnections`);
const NAMES = Object.fromEntries([...TAKEN_OVER, ...OTHERS].map((name) => [name, true as const]));

type Given = Readonly<Record<string, unknown>>;

export function isHandle(target: unknown): target is MysqlHandle {
  const { query, end, execute } = (target ?? {}) as Given;
  return isFunction(query) && !isFunction(end) && !isFunction(execute);
}

/**
 * The options of a connection to the target. Messages do not repeat what was given, because there may be a password in it.
 *
 * @throws LockConfigurationError for a target that mysql2 would take for localhost, or for another database
 */
export function connectionOptions(target: unknown): ConnectionOptions {
  if (typeof target === 'string') return optionsOfUrl(target);
  if (typeof target !== 'object' || target === null || Array.isArray(target)) throw refused(target);
  const { pool, config } = target as PoolOfMysql2;
  const ofPool = config?.connectionConfig ?? pool?.config?.connectionConfig;
  if (ofPool) return pick(ofPool as Given);
  if (isFunction((target as Given)['query']) || isFunction((target as Given)['getConnection'])) {
    throw new LockConfigurationError(
      `${NEEDED}; it was given ${describeGiven(target)}. Locks have a connection of their own: give the URL or the options that this one was made with.`,
    );
  }
  checkOptionNames('mysql2', target, NAMES);
  const { uri, ...options } = pick(target as Given);
  const all = { ...(uri === undefined ? {} : optionsOfUrl(uri)), ...options };
  if (!all.host && !all.socketPath && !all.stream) {
    throw new LockConfigurationError(
      `${NEEDED}; the options name no server: give host, socketPath or uri. Without them mysql2 would use localhost.`,
    );
  }
  return all;
}

/** Where it connects to, without user and password. */
export function addressOf({ host, port = 3306, socketPath, database = '' }: ConnectionOptions): string {
  return `${socketPath ?? `${host}:${port}`}/${database}`;
}

/** As mysql2 reads it: options after the "?" are JSON, or text. */
function optionsOfUrl(url: string): ConnectionOptions {
  const [, scheme] = /^([a-z][\w+.-]*):\/\//i.exec(url) ?? [];
  if (scheme !== undefined && !/^(mysqlx?|mariadb)$/.test(scheme)) {
    throw new LockConfigurationError(
      `${NEEDED}; the scheme of the URL is ${scheme}:, not mysql: or mariadb:.${scheme.startsWith('postgres') ? ' For PostgreSQL write postgresStore(…).' : ''}`,
    );
  }
  if (scheme === undefined || !URL.canParse(url) || new URL(url).hostname === '') {
    throw new LockConfigurationError(
      `${NEEDED}; the text it was given is no URL with a host. A password in it must be written by encodeURIComponent.`,
    );
  }
  const { hostname, port, pathname, username, password, searchParams } = new URL(url);
  const given = Object.fromEntries([...searchParams].map(([name, text]) => [name, valueIn(text)]));
  if (!Object.keys(given).every((name) => Object.hasOwn(NAMES, name))) {
    // Not by its name: where a password holds a "?", that is a part of it.
    throw new LockConfigurationError(`${NEEDED}; after the "?" of the URL is what mysql2 has no option for.`);
  }
  return {
    host: decodeURIComponent(hostname.replace(/^\[(.*)\]$/, '$1')),
    ...(port !== '' && { port: Number(port) }),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)),
    ...pick(given),
  };
}

function wordsOf(text: string): readonly string[] {
  return text.split(/\s+/);
}

function valueIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function pick(given: Given): ConnectionOptions {
  return Object.fromEntries(
    TAKEN_OVER.filter((name) => given[name] !== undefined).map((name) => [name, given[name]]),
  );
}

function isFunction(value: unknown): boolean {
  return typeof value === 'function';
}

function refused(target: unknown): LockConfigurationError {
  return new LockConfigurationError(`${NEEDED}; it was given ${describeGiven(target)}.`);
}
