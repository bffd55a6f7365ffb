import { fileURLToPath } from 'node:url';
import { startRedisServer, type RedisServer } from '#redis-server';
import { PostgresDatabase } from '../database/postgres.database.js';
import type { Database } from '../database/database.js';
import { startDatabaseServer } from './database-server.js';
import { startInstance, type Instance } from './instance.js';

/** Several processes of the app on one Redis and one database. All of them end when this process ends, even if it is killed. */
export interface Branches {
  readonly instances: readonly Instance[];
  readonly database: Database;
  readonly databaseUrl: string;
  readonly redisUrl: string;
  /** `undefined` when the server was not started by this process. */
  readonly redis: RedisServer | undefined;
  close(): Promise<void>;
}

export interface BranchOptions {
  readonly count: number;
  /** The program of an instance. */
  readonly program?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Servers that run already; others are started. */
  readonly redisUrl?: string | undefined;
  readonly databaseUrl?: string | undefined;
  /** Called with a description before each slow step of the start. */
  readonly onStep?: (step: string) => void;
}

const PROGRAM = fileURLToPath(new URL('../main.js', import.meta.url));

export async function openBranches(options: BranchOptions): Promise<Branches> {
  const { count, program = PROGRAM, env = {}, onStep = () => {} } = options;
  const closing: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const end of closing.splice(0).reverse()) await end();
  };
  try {
    if (!options.redisUrl) onStep('Starting a Redis server (the first time it may have to be fetched) …');
    const redis = options.redisUrl ? undefined : await startRedisServer();
    if (redis) closing.push(() => redis.stop());
    onStep(
      `Starting ${options.databaseUrl ? '' : 'an embedded Postgres and '}${count} instances of the app …`,
    );
    const server = options.databaseUrl ? undefined : await startDatabaseServer();
    if (server) closing.push(() => server.close());
    const redisUrl = redis?.url ?? options.redisUrl!;
    const databaseUrl = server?.url ?? options.databaseUrl!;
    const database = new PostgresDatabase(databaseUrl);
    closing.push(() => database.close());
    const urls = { REDIS_URL: redisUrl, DATABASE_URL: databaseUrl };
    const start = async () => {
      const instance = await startInstance(program, { ...urls, ...env });
      closing.push(() => instance.stop());
      return instance;
    };
    const starting = Array.from({ length: count }, start);
    await Promise.allSettled(starting);
    const instances = await Promise.all(starting);
    return { instances, database, databaseUrl, redisUrl, redis, close };
  } catch (error) {
    await close();
    throw error;
  }
}
