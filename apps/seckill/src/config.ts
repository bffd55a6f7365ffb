import { withoutSecrets } from './preflight/without-secrets.js';

/** The settings that the app reads from its environment. */
export interface Config {
  readonly host: string;
  /** 0: the system picks one. */
  readonly port: number;
  /** A Postgres; without it an embedded one, in memory. */
  readonly databaseUrl: string | undefined;
  /** A Redis; without it locks hold within this process only. */
  readonly redisUrl: string | undefined;
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
  const config: Config = {
    host: env['HOST'] ?? '127.0.0.1',
    port: check('PORT', 'a port number', wholeNumber(65_535)) ?? 3000,
    databaseUrl: check(
      'DATABASE_URL',
      'a URL such as postgres://user@host/name',
      url('postgres:', 'postgresql:'),
    ),
    redisUrl: check('REDIS_URL', 'a URL such as redis://host:6379', url('redis:', 'rediss:')),
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

function url(...protocols: string[]): (text: string) => string | undefined {
  return (text) => (URL.canParse(text) && protocols.includes(new URL(text).protocol) ? text : undefined);
}
