import { LockConfigurationError } from '../../../port/lock.errors.js';
import type { ClientSettings, RedisClient } from '../redis.client.js';
import { clusterOptions, type ClusterOptions } from './cluster-options.js';
import { NodeRedisClusterClient } from './node-redis.cluster.js';
import { databaseOf, OneServer } from './node-redis.single.js';
import {
  isNodeRedisCluster,
  isNodeRedisSentinel,
  type NodeRedis,
  type NodeRedisTarget,
} from './node-redis.target.js';
import { SentinelMaster } from './sentinel-master.js';
import { sentinelOptions } from './sentinel-options.js';

/** A new, unconnected client of node-redis for one server, for the master that Sentinels name, or for a cluster. */
export function nodeRedisClient(target: NodeRedisTarget, settings: ClientSettings): RedisClient {
  if (isNodeRedisCluster(target)) return new NodeRedisClusterClient(() => clusterOptions(target), settings);
  if (isNodeRedisSentinel(target)) return new SentinelMaster(target, settings);
  const client = target as unknown as NodeRedis;
  return new OneServer(client, settings, databaseOf(client, settings));
}

/** @throws LockConfigurationError for a client whose options cannot be read, and for a cluster with TLS on one node only */
export function checkNodeRedis(target: NodeRedisTarget): void {
  const options = optionsOf(target);
  if (!isNodeRedisCluster(target)) return;
  const { rootNodes, defaults } = options as ClusterOptions;
  const asksForTls = rootNodes.some(({ url, socket }) => /^rediss:/i.test(url ?? '') || socket?.tls);
  if (!asksForTls || defaults?.socket?.tls) return;
  throw new LockConfigurationError(
    'A node of the cluster that redisStore was given asks for TLS, which node-redis uses for the nodes that it finds only by defaults: { socket: { tls: true } }. Without it their connections would be in plain text.',
  );
}

/** The prefix that a client of node-redis would put before each key. */
export function nodeRedisKeyPrefix(target: NodeRedisTarget): string | undefined {
  return optionsOf(target)?.keyPrefix?.toString();
}

function optionsOf(target: NodeRedisTarget): { readonly keyPrefix?: string | Buffer } | undefined {
  if (isNodeRedisCluster(target)) return clusterOptions(target);
  return isNodeRedisSentinel(target) ? sentinelOptions(target) : (target as unknown as NodeRedis).options;
}
