import type { LockStoreFactory } from 'nestjs-distributed-lock';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { redisStore } from 'nestjs-distributed-lock/redis';

export interface Settings {
  readonly host: string;
  /** 0: the system picks a free one. */
  readonly port: number;
  readonly databaseUrl: string;
  readonly store: LockStoreFactory;
  /** How long the locks of a killed instance outlive it; by default that of the library. */
  readonly watchdogTimeoutMs: number | undefined;
  /** Longest time that a buyer waits for the lock; by default that of the library. */
  readonly waitMs: number | undefined;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** @throws Error when `DATABASE_URL` is missing: `npm start` sets it */
export function readSettings(env: Environment): Settings {
  const databaseUrl = env['DATABASE_URL'];
  if (!databaseUrl)
    throw new Error('DATABASE_URL is missing: set it to the URL of a Postgres, or run npm start.');
  return {
    host: env['HOST'] || '127.0.0.1',
    port: readNumber(env['PORT']) ?? 3000,
    databaseUrl,
    store: lockStore(databaseUrl, env['REDIS_URL']),
    watchdogTimeoutMs: readNumber(env['WATCHDOG_MS']),
    waitMs: readNumber(env['WAIT_MS']),
  };
}

/** The locks are in Redis if there is one, and otherwise in the Postgres of the goods. */
export function lockStore(databaseUrl: string, redisUrl: string | undefined): LockStoreFactory {
  return redisUrl ? redisStore(redisUrl) : postgresStore(databaseUrl);
}

/** Text that is no number becomes NaN, which Nest and the library refuse at boot with the name of the option. */
function readNumber(text: string | undefined): number | undefined {
  return text ? Number(text) : undefined;
}
