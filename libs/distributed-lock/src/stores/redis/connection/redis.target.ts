import { Redis, type Cluster, type RedisOptions } from 'ioredis';
import { describeGiven } from '../../../options/describe-given.js';
import { LockConfigurationError } from '../../../port/lock.errors.js';
import { checkOptionNames, type OptionNames } from '../../../options/option-names.js';
import { DEFAULT_COMMAND_TIMEOUT_MS, type RedisTarget } from '../redis.options.js';
import { ownConnection } from './own-settings.js';
import { systemChance } from '../../../time/chance.js';

/** The options of ioredis. `knownNames` adds those of the installed release, which may have more. */
const NAMES: OptionNames<RedisOptions> = {
  Connector: true,
  autoPipeliningIgnoredCommands: true,
  autoResendUnfulfilledCommands: true,
  autoResubscribe: true,
  blockingTimeout: true,
  blockingTimeoutGrace: true,
  clientInfoTag: true,
  commandQueue: true,
  commandTimeout: true,
  connectTimeout: true,
  connectionName: true,
  db: true,
  disableClientInfo: true,
  disconnectTimeout: true,
  enableAutoPipelining: true,
  enableOfflineQueue: true,
  enableReadyCheck: true,
  enableTLSForSentinelMode: true,
  failoverDetector: true,
  family: true,
  himportFieldsets: true,
  host: true,
  keepAlive: true,
  keyPrefix: true,
  lazyConnect: true,
  maxLoadingRetryTime: true,
  maxRetriesPerRequest: true,
  monitor: true,
  name: true,
  natMap: true,
  noDelay: true,
  offlineQueue: true,
  password: true,
  path: true,
  port: true,
  preferredSlaves: true,
  protocol: true,
  readOnly: true,
  reconnectOnError: true,
  replyMapping: true,
  retryStrategy: true,
  role: true,
  scripts: true,
  sentinelCommandTimeout: true,
  sentinelMaxConnections: true,
  sentinelPassword: true,
  sentinelReconnectStrategy: true,
  sentinelRetryStrategy: true,
  sentinelTLS: true,
  sentinelUsername: true,
  sentinels: true,
  showFriendlyErrorStack: true,
  socketTimeout: true,
  stringNumbers: true,
  tls: true,
  updateSentinels: true,
  username: true,
};

/** The options that say which server is meant. */
const PLACES = ['host', 'port', 'path', 'sentinels', 'Connector'] as const;
/** Methods that the clients of all Redis libraries have. */
const CLIENT_METHODS = ['sendCommand', 'connect', 'duplicate', 'quit'] as const;
const NEEDED = 'redisStore takes a URL, ioredis options or an ioredis client';

type Given = Readonly<Record<string, unknown>>;

/**
 * Refuses what ioredis would take for localhost, or would take and not use. Says what was given, and never the values of
 * it: there may be a password among them.
 *
 * @throws LockConfigurationError
 */
export function checkTarget(target: unknown): asserts target is RedisTarget {
  if (typeof target === 'string') return checkUrl(target);
  if (typeof target !== 'object' || target === null || Array.isArray(target)) throw refused(target);
  if (isCluster(target) || isRedis(target)) return;
  if (CLIENT_METHODS.some((name) => typeof (target as Given)[name] === 'function')) {
    throw new LockConfigurationError(
      `${NEEDED}; it was given a client of another library (${describeGiven(target)}). Give the URL that this one was made with.`,
    );
  }
  if ((target as Given)['url'] !== undefined) {
    throw new LockConfigurationError(`${NEEDED}; it was given an object with url. Write redisStore(url).`);
  }
  checkOptionNames('ioredis', target, knownNames());
  checkUnused(target as Given, 'The ioredis options of redisStore');
  if (PLACES.every((name) => isEmpty((target as Given)[name])) || hasEmptyHost(target as Given)) {
    throw new LockConfigurationError(
      `${NEEDED}; the options name no server: give host, path or sentinels. Without them ioredis would use localhost.`,
    );
  }
}

/**
 * Refuses a `keyPrefix` of ioredis, which locks do not have: their names are `keyPrefix` of the module, and the key.
 *
 * @throws LockConfigurationError unless the module says the same
 */
export function checkKeyPrefix(target: RedisTarget, keyPrefix: string): void {
  if (typeof target === 'string' || !(isCluster(target) || isRedis(target))) return;
  const ofNodes = isCluster(target) ? target.options.redisOptions?.keyPrefix : undefined;
  const own = target.options.keyPrefix || ofNodes;
  if (!own || own === keyPrefix) return;
  throw new LockConfigurationError(
    `The client given to redisStore has the keyPrefix "${own}", which locks do not use. Give the same keyPrefix to DistributedLockModule, or to redisStore a client without one.`,
  );
}

// Not by instanceof: the application may have another copy of ioredis than this package sees.
export function isCluster(target: object): target is Cluster {
  return 'isCluster' in target && target.isCluster === true;
}

export function isRedis(target: object): target is Redis {
  return 'isCluster' in target && 'duplicate' in target;
}

function checkUrl(url: string): void {
  if (url.trim() === '') throw refused(url);
  const [, scheme] = /^([a-z][\w+.-]*):\/\//i.exec(url) ?? [];
  if (scheme !== undefined && !/^rediss?$/.test(scheme)) {
    throw new LockConfigurationError(
      `${NEEDED}; the scheme of the URL is ${scheme}:, not redis: or rediss:.`,
    );
  }
  const parsed = parse(url, scheme !== undefined);
  if (!parsed) {
    throw new LockConfigurationError(
      `${NEEDED}; the text it was given is no URL with a host. A password in it must be written by encodeURIComponent.`,
    );
  }
  const options = Object.fromEntries(parsed.searchParams);
  const known = knownNames();
  if (!Object.keys(options).every((name) => Object.hasOwn(known, name))) {
    // Not by its name: where a password holds a "?", that is a part of it.
    throw new LockConfigurationError(
      `${NEEDED}; after the "?" of the URL is what ioredis has no option for.`,
    );
  }
  checkUnused(options, 'The URL of redisStore');
}

/** As ioredis reads it: a URL, a path, or the rest of a URL. Errors of `URL` repeat what was given. */
function parse(url: string, hasScheme: boolean): URL | undefined {
  if (/^\/(?!\/)/.test(url)) return new URL(url, 'redis://localhost');
  const whole = hasScheme ? url : url.startsWith('//') ? `redis:${url}` : `redis://${url}`;
  if (!URL.canParse(whole)) return undefined;
  const parsed = new URL(whole);
  return parsed.hostname === '' ? undefined : parsed;
}

function knownNames(): Readonly<Record<string, true>> {
  const defaults = Object.keys(new Redis({ lazyConnect: true }).options);
  return { ...Object.fromEntries(defaults.map((name) => [name, true as const])), ...NAMES };
}

/** Refuses options that `ownConnection` overwrites. The default values of ioredis pass, because the user did not set them. */
function checkUnused(options: Given, of: string): void {
  const own = ownConnection(DEFAULT_COMMAND_TIMEOUT_MS, systemChance) as Given;
  // Made lazy so that it does not connect: by default it is not.
  const defaults: Given = { ...new Redis({ lazyConnect: true }).options, lazyConnect: false };
  const unused = Object.keys(own).filter((name) => {
    const value = options[name];
    return !isEmpty(value) && value !== own[name] && value !== defaults[name];
  });
  if (unused.length === 0) return;
  const instead = unused.includes('keyPrefix') ? ' The keyPrefix of locks is an option of the module.' : '';
  throw new LockConfigurationError(
    `${of}: locks need settings of their own for ${unused.join(', ')}, so yours would do nothing. Leave them out.${instead}`,
  );
}

/** From an environment variable that is not set, for example: ioredis would use localhost, with the given port. */
function hasEmptyHost(options: Given): boolean {
  const others = PLACES.filter((name) => name !== 'host' && name !== 'port');
  return 'host' in options && isEmpty(options['host']) && others.every((name) => isEmpty(options[name]));
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}

function refused(target: unknown): LockConfigurationError {
  return new LockConfigurationError(`${NEEDED}; it was given ${describeGiven(target)}.`);
}
