import { createRequire } from 'node:module';
import type * as Ioredis from 'ioredis';
import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import type { Chance } from '../../common/clock.js';
import { connectWithinMs, KEEP_ALIVE_MS, reconnectDelay } from '../../connection/timing.js';
import {
  decoded,
  keepLive,
  readOptions,
  readParameters,
  refused,
  TLS_PARAMETERS,
  urlParameter,
  type UrlParameters,
} from '../../connection/url-parameters.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import type { ClientSettings } from '../client.js';

/** Makes a new, unconnected client for `target`. It has the options that the target has now, except for those on which locks depend. */
export function duplicateOf(target: IoredisTarget, settings: ClientSettings): Redis | Cluster {
  const { commandTimeoutMs, chance } = settings;
  const own = ownConnection(commandTimeoutMs, chance);
  const named = (given: RedisOptions | undefined): RedisOptions => {
    const connectionName = given?.connectionName ?? settings.connectionName;
    return connectionName === undefined ? {} : { connectionName };
  };
  if (typeof target === 'object' && isCluster(target)) {
    const { redisOptions } = target.options;
    const cluster = ownCluster(commandTimeoutMs, chance, { ...redisOptions, ...named(redisOptions) });
    // Sharded subscriptions are for Redisson's channels. ioredis connects to a node at the first subscription there.
    return target.duplicate([], { ...cluster, shardedSubscribers: true });
  }
  const given = givenOptions(target);
  const settled = {
    ...own,
    ...named(given),
    // Without a timeout ioredis would wait for a Sentinel for ever. One takes up to four round trips: one to connect, two for the
    // handshake, and one to ask.
    sentinelCommandTimeout: given.sentinelCommandTimeout ?? 4 * commandTimeoutMs,
  };
  const isClient = typeof target === 'object' && isRedis(target);
  return isClient ? target.duplicate(settled) : new (loadIoredis().Redis)({ ...given, ...settled });
}

/** The options of the target as they are now. */
function givenOptions(target: Exclude<IoredisTarget, Cluster>): RedisOptions {
  if (typeof target === 'string') return optionsOfUrl(target);
  return readOptions(isRedis(target) ? target.options : target) as RedisOptions;
}

/**
 * Makes connections that follow the target: each attempt to connect uses the user, the password and the other options that the
 * target has then.
 *
 * @param onError gets what a getter of the application throws
 * @returns what to do with the options of each connection: of the only one, or of a node of a cluster
 */
export function liveOptionsOf(
  target: IoredisTarget,
  onError: (error: unknown) => void,
): (options: object) => void {
  if (typeof target === 'string') return () => undefined;
  const read = (): object => {
    if (isCluster(target)) return target.options.redisOptions ?? {};
    return isRedis(target) ? target.options : target;
  };
  const first = readOptions(read());
  return (options) => keepLive(options, { read, first, except: OWN_NAMES, onError });
}

/** The options that the store sets itself. */
const OWN_NAMES = {
  ...ownConnection(0, { random: () => 0 } as Chance),
  sentinelCommandTimeout: true,
  connectionName: true,
  socketTimeout: true,
};

/**
 * Settings that make a connection safe for locks. ioredis queues nothing while disconnected, and a single connection sends
 * nothing twice, so that no command is executed after its caller has given up (docs/decisions/0005).
 */
function ownConnection(commandTimeoutMs: number, chance: Chance): RedisOptions {
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    // Auto-pipelining delays commands until setImmediate. A caller that blocks the event loop would delay its renewal.
    enableAutoPipelining: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: null,
    stringNumbers: false,
    replyMapping: 'legacy',

    keepAlive: KEEP_ALIVE_MS,
    connectTimeout: connectWithinMs(commandTimeoutMs),
    commandTimeout: undefined,
    // The store destroys the stream itself. ioredis' own timer for it would outlive close().
    disconnectTimeout: 0,
    retryStrategy: (times) => reconnectDelay(chance, times),
    reconnectOnError: null,
    failoverDetector: true,
    keyPrefix: '',
    // `RedisConnection` selects the database, because ioredis would go on in database 0 if the server refuses that.
    db: 0,
  };
}

function ownCluster(
  commandTimeoutMs: number,
  chance: Chance,
  given: RedisOptions | undefined,
): ClusterOptions {
  const { lazyConnect: _lazy, retryStrategy: _retry, ...node } = ownConnection(commandTimeoutMs, chance);
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    clusterRetryStrategy: (times) => reconnectDelay(chance, times),
    keyPrefix: '',
    redisOptions: { ...given, ...node, socketTimeout: commandTimeoutMs },
  };
}

/** A URL, ioredis options (Sentinel included), or a client of ioredis. */
export type IoredisTarget = string | RedisOptions | Redis | Cluster;

// Not by instanceof: the application may have another copy of ioredis than this package sees.
export function isCluster(target: object): target is Cluster {
  return 'isCluster' in target && target.isCluster === true;
}

export function isRedis(target: object): target is Redis {
  return 'isCluster' in target && 'duplicate' in target;
}

/** The prefix that a client of ioredis would put before each key. */
export function keyPrefixOf(target: IoredisTarget): string | undefined {
  if (typeof target === 'string') return undefined;
  if (isCluster(target)) return target.options.keyPrefix || target.options.redisOptions?.keyPrefix;
  return isRedis(target) ? target.options.keyPrefix : target.keyPrefix;
}

/**
 * Refuses nodes of a cluster that ask for TLS if the cluster's own options do not: ioredis takes only the address from the URL of a
 * node, and would connect in plain text.
 *
 * @throws LockConfigurationError
 */
export function checkNodesOfCluster(target: Cluster): void {
  const { startupNodes } = target as unknown as { readonly startupNodes?: readonly unknown[] };
  const asksForTls = (node: unknown): boolean =>
    typeof node === 'string' ? /^rediss:/i.test(node) : Boolean((node as { tls?: unknown } | null)?.tls);
  if (target.options.redisOptions?.tls || !startupNodes?.some(asksForTls)) return;
  throw new LockConfigurationError(
    'A node of the cluster that redisStore was given asks for TLS, which ioredis uses for all nodes only by redisOptions: { tls: {} }. Without it the connections would be in plain text.',
  );
}

const STORE = 'redisStore';
const OWN = 'Leave it out: redisStore sets up its connections itself.';
const TIMEOUT = 'Leave it out, and give redisStore the option commandTimeoutMs.';
const RETRIES =
  'Leave it out: redisStore connects again by itself, and a call goes on trying until its waitMs is over.';
const MASTER = 'Leave it out: locks are writes, which only a master takes.';

/** Options of ioredis that would do nothing, or make a connection unsafe for locks, and what to write instead. */
const REFUSED: UrlParameters = {
  ...refused(OWN, 'lazyConnect', 'enableOfflineQueue', 'autoResubscribe', 'autoResendUnfulfilledCommands'),
  ...refused(OWN, 'enableAutoPipelining', 'stringNumbers', 'replyMapping', 'failoverDetector', 'keepAlive'),
  ...refused(OWN, 'disconnectTimeout', 'monitor'),
  ...refused(TIMEOUT, 'connectTimeout', 'commandTimeout'),
  ...refused(RETRIES, 'retryStrategy', 'reconnectOnError', 'maxRetriesPerRequest'),
  ...refused(MASTER, 'readOnly', 'role'),
};

/**
 * The parameters that a URL may have. ioredis would treat any parameter as an option, with a string as its value, and let it override the
 * option that the store sets.
 */
export const REDIS_PARAMETERS: UrlParameters = {
  ...refused('For a connection with TLS begin the URL with rediss:.', ...TLS_PARAMETERS),
  ...REFUSED,
  ...refused('Give keyPrefix to DistributedLockModule.', 'keyPrefix', 'prefix'),
  ...refused(
    'For Sentinels give redisStore options: { sentinels, name }.',
    'sentinels',
    'name',
    'master',
    'mymaster',
  ),
  ...refused('Write it as the path of the URL, as redis://host:6379/2.', 'database'),
  db: urlParameter.wholeNumber,
  username: urlParameter.text,
  password: urlParameter.text,
  family: urlParameter.oneOf({ 0: 0, 4: 4, 6: 6 }),
  protocol: urlParameter.oneOf({ 2: 2, 3: 3 }),
  connectionName: urlParameter.text,
  enableReadyCheck: urlParameter.trueOrFalse,
  noDelay: urlParameter.trueOrFalse,
  tls: urlParameter.oneOf({ true: {}, 1: {}, false: false, 0: false }),
};

/**
 * The options that a URL stands for, or one of the texts that ioredis takes for a URL: a port, `host:port`, `//host` and the
 * path of a socket.
 *
 * @throws LockConfigurationError
 */
export function optionsOfUrl(url: string): RedisOptions {
  if (/^\d+$/.test(url)) return { port: portOf(url) };
  const [beforeHash] = url.split('#', 1) as [string];
  if (beforeHash !== url) throw unreadableUrlError('it has a #, which a password must have as %23');
  const query = url.includes('?') ? url.slice(url.indexOf('?') + 1) : '';
  const parameters = readParameters(STORE, query, REDIS_PARAMETERS) as RedisOptions & {
    tls?: object | false;
  };
  const { tls, ...followed } = parameters;
  const isSocket = /^\/(?!\/)/.test(url);
  if (isSocket) return { path: url.split('?', 1)[0] as string, ...followed };
  const [, scheme] = /^(rediss?):\/\//i.exec(url) ?? [];
  const { hostname, port, pathname, username, password } = new URL(
    scheme === undefined ? (url.startsWith('//') ? `redis:${url}` : `redis://${url}`) : url,
  );
  const isTls = scheme?.toLowerCase() === 'rediss';
  if (isTls && tls === false)
    throw unreadableUrlError('it begins with rediss: and has tls=false. Write redis: for no TLS');
  const own: RedisOptions = {
    host: hostname.replace(/^\[|\]$/g, ''),
    ...(port !== '' && { port: Number(port) }),
    ...(username !== '' && { username: decoded(STORE, username) }),
    ...(password !== '' && { password: decoded(STORE, password) }),
    ...databaseIn(pathname, scheme !== undefined || url.startsWith('//')),
  };
  for (const name of ['username', 'password', 'db'] as const) {
    if (name in own && name in followed) throw unreadableUrlError(`it has two values for ${name}`);
  }
  return { ...own, ...followed, ...((isTls || tls) && { tls: {} }) };
}

function databaseIn(pathname: string, hasScheme: boolean): { readonly db?: number } {
  const [, text = ''] = /^\/(.*?)\/?$/.exec(pathname) ?? [];
  if (text === '') return {};
  if (hasScheme && /^\d{1,9}$/.test(text)) return { db: Number(text) };
  throw unreadableUrlError('its path is not the number of a database, as in redis://host:6379/2');
}

function portOf(text: string): number {
  if (Number(text) < 65_536) return Number(text);
  throw unreadableUrlError('it is no port');
}

function unreadableUrlError(why: string): LockConfigurationError {
  return new LockConfigurationError(`${STORE} cannot follow its URL: ${why}.`);
}

/** Values that count as not given: the defaults of ioredis 5 and 6, and what the store sets itself. */
const HARMLESS: Readonly<Record<string, readonly unknown[]>> = {
  enableAutoPipelining: [false],
  stringNumbers: [false],
  replyMapping: ['legacy'],
  keepAlive: [0, 30_000],
  disconnectTimeout: [0, 2000],
  connectTimeout: [10_000],
  maxRetriesPerRequest: [null, 20],
  readOnly: [false],
  monitor: [false],
  role: ['master'],
};

/** Options for commands that are sent while the client is disconnected. The store sends no command then, so they do nothing. */
const UNUSED = [
  'lazyConnect',
  'enableOfflineQueue',
  'autoResubscribe',
  'autoResendUnfulfilledCommands',
  'failoverDetector',
];

/**
 * Refuses options that would do nothing. The options of an existing client have every name, so a default value counts as not given.
 *
 * @throws LockConfigurationError
 */
export function checkGivenOptions(options: object): void {
  const defaults = defaultOptions() as typeof given | undefined;
  const given = options as Readonly<Record<string, unknown>>;
  for (const [name, parameter] of Object.entries(REFUSED)) {
    const value = given[name];
    if (value === undefined || value === null || UNUSED.includes(name)) continue;
    if (HARMLESS[name]?.includes(value) || value === defaults?.[name]) continue;
    throw optionError(name, 'instead' in parameter ? parameter.instead : '');
  }
  if (given['ssl']) throw optionError('ssl', 'For TLS write tls: {}.');
  const { db = null } = given;
  if (db !== null && !/^\d+$/.test(`${db as number}`)) {
    throw optionError('db', 'It must be the number of a database.');
  }
  if (given['sentinels'] && given['tls'] && !given['enableTLSForSentinelMode']) {
    throw optionError(
      'tls',
      'With Sentinels ioredis uses it only together with enableTLSForSentinelMode: true, and would connect to the master in plain text.',
    );
  }
}

function optionError(name: string, advice: string): LockConfigurationError {
  return new LockConfigurationError(`${STORE} cannot follow the option "${name}" of ioredis. ${advice}`);
}

/**
 * Loads ioredis, for a target that is a URL or options. An application that gives a client of node-redis need not install it.
 *
 * @throws LockConfigurationError if it is not installed, or is part of a bundle
 */
function loadIoredis(): typeof Ioredis {
  const ioredis = findIoredis();
  if (ioredis) return ioredis;
  throw new LockConfigurationError(
    'redisStore connects to a URL or to options by the package ioredis, which it does not find. Run npm install ioredis. In a bundle, where no package is found, give redisStore a client: new Redis(url) of ioredis, or createClient({ url }) of node-redis.',
  );
}

/** @returns `undefined` where it is not installed, or is part of a bundle */
export function findIoredis(): typeof Ioredis | undefined {
  try {
    return createRequire(import.meta.url)('ioredis') as typeof Ioredis;
  } catch {
    return undefined;
  }
}

/** The defaults of the options of ioredis, which the options of a client repeat. */
function defaultOptions(): object | undefined {
  return (findIoredis()?.Redis as unknown as { readonly defaultOptions?: object } | undefined)
    ?.defaultOptions;
}
