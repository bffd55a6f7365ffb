import { oneOf } from './command-line/one-of.js';
import { withoutSecrets } from './preflight/without-secrets.js';
import { SERVERS, type ServerName, type ServerUrls } from './stores/servers.js';
import { STORE_NAMES, type StoreName } from './stores/store-name.js';

/** The settings that the app reads from its environment. */
export interface Config extends ServerUrls {
  readonly host: string;
  /** 0: the system picks one. */
  readonly port: number;
  /** Where the locks are. By default a Redis that the environment names, otherwise the memory of this process. */
  readonly store: StoreName;
  /** A Postgres for the goods; without it an embedded one, in memory. */
  readonly databaseUrl: string | undefined;
  /** How long a killed instance blocks the items that it was selling. */
  readonly watchdogTimeoutMs: number | undefined;
  /** Longest time that a buyer waits for the lock. */
  readonly waitMs: number | undefined;
  /** `false` only to show a sale without the lock. */
  readonly locked: boolean;
}

/** The token of the config in the app. */
export const CONFIG = Symbol('config');

type Environment = Readonly<Record<string, string | undefined>>;

/** @throws Error that names each variable that makes no sense */
export function readConfig(env: Environment): Config {
  const problems: string[] = [];
  const check = <T>(name: string, meant: string, read: (text: string) => T | undefined): T | undefined => {
    const text = env[name];
    if (text === undefined || text === '') return undefined;
    const value = read(text);
    if (value === undefined) problems.push(`${name} must be ${meant}; it is "${withoutSecrets(text)}".`);
    return value;
  };
  const server = (name: ServerName) => {
    const { variable, example, isAddress } = SERVERS[name];
    return check(variable, `an address such as ${example}`, (text) => (isAddress(text) ? text : undefined));
  };
  const redisUrl = server('redisUrl');
  const config: Config = {
    host: env['HOST'] ?? '127.0.0.1',
    port: check('PORT', 'a port number', wholeNumber(65_535)) ?? 3000,
    store: check('STORE', oneOf(STORE_NAMES), storeName) ?? (redisUrl === undefined ? 'memory' : 'redis'),
    redisUrl,
    databaseUrl: server('databaseUrl'),
    mysqlUrl: server('mysqlUrl'),
    etcdUrl: server('etcdUrl'),
    zookeeperHosts: server('zookeeperHosts'),
    watchdogTimeoutMs: check('WATCHDOG_MS', 'a whole number of ms', wholeNumber(86_400_000)),
    waitMs: check('WAIT_MS', 'a whole number of ms', wholeNumber(86_400_000)),
    locked: check('LOCK', 'on or off', (text) => ({ on: true, off: false })[text]) ?? true,
  };
  if (problems.length > 0) throw new Error(problems.join('\n'));
  return config;
}

function wholeNumber(largest: number): (text: string) => number | undefined {
  return (text) => (/^\d+$/.test(text) && Number(text) <= largest ? Number(text) : undefined);
}

function storeName(text: string): StoreName | undefined {
  return STORE_NAMES.find((name) => name === text);
}
