import { createRequire } from 'node:module';
import type { RedisOptions } from 'ioredis';
import type * as Ioredis from 'ioredis';
import {
  decoded,
  readParameters,
  refused,
  TLS_PARAMETERS,
  urlParameter,
  type UrlParameters,
} from '../../connection/url-parameters.js';
import { LockConfigurationError } from '../../port/lock.errors.js';

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
 * @param defaults the default options of ioredis, where it is installed
 * @throws LockConfigurationError
 */
export function checkGivenOptions(options: object, defaults: object | undefined): void {
  const given = options as Readonly<Record<string, unknown>>;
  for (const [name, parameter] of Object.entries(REFUSED)) {
    const value = given[name];
    if (value === undefined || value === null || UNUSED.includes(name)) continue;
    if (HARMLESS[name]?.includes(value) || value === (defaults as typeof given | undefined)?.[name]) continue;
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
export function loadIoredis(): typeof Ioredis {
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
export function defaultOptions(): object | undefined {
  return (findIoredis()?.Redis as unknown as { readonly defaultOptions?: object } | undefined)
    ?.defaultOptions;
}
