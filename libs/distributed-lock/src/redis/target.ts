import { assertObject, isEmpty, targetError } from '../connection/checks.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { describeGiven } from '../port/option-checks.js';
import type { ClientSettings, RedisClient } from './client.js';
import { ioredisClient } from './ioredis/client.js';
import {
  checkGivenOptions,
  checkNodesOfCluster,
  isCluster,
  isRedis,
  keyPrefixOf,
  optionsOfUrl,
} from './ioredis/options.js';
import { checkNodeRedis, isNodeRedis, nodeRedisClient, nodeRedisKeyPrefix } from './node-redis/client.js';
import type { NodeRedisTarget } from './node-redis/target.js';
import type { RedisTarget } from './options.js';

/** The options that name a server. Without any of them ioredis would connect to localhost. */
const PLACES = ['host', 'port', 'path', 'sentinels', 'Connector'] as const;
/** Methods that the clients of all Redis libraries have. */
const CLIENT_METHODS = ['sendCommand', 'connect', 'duplicate', 'quit'] as const;
const NEEDED = 'redisStore takes a URL, ioredis options, or a client of ioredis or node-redis';

type Given = Readonly<Record<string, unknown>>;

/**
 * Refuses what ioredis would take for localhost, and clients of other libraries. Says what was given, and never the values
 * of it: there may be a password among them.
 *
 * @throws LockConfigurationError
 */
export function checkRedisTarget(target: unknown): asserts target is RedisTarget {
  if (typeof target === 'string') return checkUrl(target);
  assertObject(NEEDED, target);
  if (isCluster(target)) return checkNodesOfCluster(target);
  if (isRedis(target)) return;
  if (isNodeRedis(target)) return checkNodeRedis(target);
  const isPool = 'isOpen' in target && typeof (target as Given)['destroy'] === 'function';
  if (isPool) {
    throw new LockConfigurationError(
      `${NEEDED}; of node-redis it takes what createClient, createSentinel and createCluster make, and was given ${describeGiven(target)}.`,
    );
  }
  if (CLIENT_METHODS.some((name) => typeof (target as Given)[name] === 'function')) {
    throw new LockConfigurationError(
      `${NEEDED}; it was given a client of another library (${describeGiven(target)}). Give the URL that this one was made with. Of node-redis, versions 5 and later are taken.`,
    );
  }
  if ((target as Given)['url'] !== undefined) {
    throw new LockConfigurationError(
      `${NEEDED}; it was given an object with url. Write redisStore(url), or redisStore(createClient({ url })) for node-redis.`,
    );
  }
  if (PLACES.every((name) => isEmpty((target as Given)[name])) || hasEmptyHost(target as Given)) {
    throw new LockConfigurationError(
      `${NEEDED}; the options name no server: give host, path or sentinels. Without them ioredis would use localhost.`,
    );
  }
  checkGivenOptions(target);
}

/**
 * Refuses a client that has a `keyPrefix` of its own, because locks do not get it: their names are the `keyPrefix` of the module,
 * and the key.
 *
 * @throws LockConfigurationError unless the module has the same prefix
 */
export function checkKeyPrefix(target: RedisTarget, keyPrefix: string): void {
  const own = isNodeRedisClient(target) ? nodeRedisKeyPrefix(target) : keyPrefixOf(target);
  if (!own || own === keyPrefix) return;
  throw new LockConfigurationError(
    `redisStore was given a client with the keyPrefix "${own}", which locks do not use. Give the same keyPrefix to DistributedLockModule, or leave it out.`,
  );
}

/** A new, unconnected client for `target`, of the library that `target` belongs to. */
export function newClient(target: RedisTarget, settings: ClientSettings): RedisClient {
  return isNodeRedisClient(target) ? nodeRedisClient(target, settings) : ioredisClient(target, settings);
}

function isNodeRedisClient(target: RedisTarget): target is NodeRedisTarget {
  return typeof target === 'object' && !isRedis(target) && isNodeRedis(target);
}

function checkUrl(url: string): void {
  if (url.trim() === '') throw targetError(NEEDED, url);
  const [, scheme] = /^([a-z][\w+.-]*):\/\//i.exec(url) ?? [];
  if (scheme !== undefined && !/^rediss?$/i.test(scheme)) {
    const instead = /sentinel/i.test(scheme) ? ' For Sentinels give options: { sentinels, name }.' : '';
    throw new LockConfigurationError(
      `${NEEDED}; the scheme of the URL is ${scheme}:, not redis: or rediss:.${instead}`,
    );
  }
  if (!hasHost(url, scheme !== undefined)) {
    throw new LockConfigurationError(
      `${NEEDED}; the text it was given is no URL with a host. A password in it must be written by encodeURIComponent.`,
    );
  }
  optionsOfUrl(url);
}

/**
 * Whether ioredis finds a host in this text: a URL, a path, or the rest of a URL. If an `@` follows a `?` or a `#`, the password
 * contains that character, and ioredis would cut the URL there.
 */
function hasHost(url: string, hasScheme: boolean): boolean {
  if (/^\/(?!\/)/.test(url)) return true;
  const whole = hasScheme ? url : url.startsWith('//') ? `redis:${url}` : `redis://${url}`;
  return !/[?#].*@/.test(url) && URL.canParse(whole) && new URL(whole).hostname !== '';
}

/**
 * Whether a host is given and empty, for example from an environment variable that is not set. ioredis would use localhost, with
 * the given port.
 */
function hasEmptyHost(options: Given): boolean {
  const others = PLACES.filter((name) => name !== 'host' && name !== 'port');
  return 'host' in options && isEmpty(options['host']) && others.every((name) => isEmpty(options[name]));
}
