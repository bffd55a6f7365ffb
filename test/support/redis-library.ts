import { createRequire } from 'node:module';
import { Cluster, type RedisOptions } from 'ioredis';
import type { RedisTarget } from 'nestjs-distributed-lock/redis';

/** Loaded when a test asks for it, because that takes half a second, and most suites never do. */
const nodeRedis = () => createRequire(import.meta.url)('redis') as typeof import('redis');

/** The libraries by which `redisStore` connects. */
export const LIBRARIES = ['ioredis', 'node-redis'] as const;
export type Library = (typeof LIBRARIES)[number];

/** What `redisStore` is given for a server: its URL, or a client of node-redis, which is never connected. */
export function targetOf(library: Library, url: string): RedisTarget {
  return library === 'ioredis' ? url : nodeRedis().createClient({ url });
}

type Place = { readonly host: string; readonly port: number };

/** What it is given for the master that Sentinels name. */
export interface SentinelTarget {
  readonly name: string;
  readonly sentinels: Place[];
  readonly username?: string;
  readonly password?: string;
  /** Where the service finds a server that the Sentinels name so. */
  readonly natMap?: Record<string, Place>;
}

/** The options of ioredis, or a client of node-redis. @param more options that ioredis alone has */
export function sentinelTargetOf(
  library: Library,
  target: SentinelTarget,
  more: RedisOptions = {},
): RedisTarget {
  if (library === 'ioredis') return { ...target, ...more };
  const { name, sentinels, natMap, username, password } = target;
  return nodeRedis().createSentinel({
    name,
    sentinelRootNodes: sentinels,
    nodeClientOptions: { ...(username && { username }), ...(password && { password }) },
    ...(natMap && { nodeAddressMap: natMap }),
  });
}

/** What it is given for a cluster: a client, which is never connected. */
export interface ClusterTarget {
  readonly nodes: readonly Place[];
  readonly username?: string;
  readonly password?: string;
  /** Where the service finds a node that the cluster names so. */
  readonly natMap?: Record<string, Place>;
}

export function clusterTargetOf(library: Library, { nodes, natMap, ...user }: ClusterTarget): RedisTarget {
  if (library === 'ioredis') {
    return new Cluster([...nodes], { lazyConnect: true, redisOptions: user, ...(natMap && { natMap }) });
  }
  return nodeRedis().createCluster({
    rootNodes: nodes.map((socket) => ({ socket })),
    defaults: user,
    ...(natMap && { nodeAddressMap: natMap }),
  });
}
