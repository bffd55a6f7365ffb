import type { Cluster, Redis, RedisOptions } from 'ioredis';
import { LockConfigurationError } from '../../../port/lock.errors.js';
import { optionsOfUrl } from './ioredis.url.js';

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
 * ioredis uses the URL of a node for its address only, and so would connect to `rediss:` in plain text.
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

/**
 * Reads the database that the target uses now. `SELECT` changes that of a client, and is not among its options. A URL is read
 * once: the database is needed for each command.
 */
export function databaseReader(target: IoredisTarget): () => number {
  if (typeof target === 'string') {
    const { db = 0 } = optionsOfUrl(target);
    return () => db;
  }
  if (isCluster(target)) return () => 0;
  if (!isRedis(target)) return () => Number(target.db ?? 0);
  return () => {
    const { condition, prevCondition } = target as unknown as Conditions;
    // While a client reconnects, `prevCondition` has the database that it will select again.
    return Number((prevCondition ?? condition)?.select ?? target.options.db ?? 0);
  };
}

/** The state of a connection, which ioredis keeps in private members. */
interface Conditions {
  readonly condition?: Condition | null;
  readonly prevCondition?: Condition | null;
}

interface Condition {
  readonly select?: number | string | null;
}
