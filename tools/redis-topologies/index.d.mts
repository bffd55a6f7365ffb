import type { RedisServer } from '../redis-server/index.d.mts';

export interface SentinelSet {
  /** As ioredis takes them. */
  readonly options: { readonly name: string; readonly sentinels: { host: string; port: number }[] };
  readonly sentinelPort: number;
  readonly servers: readonly RedisServer[];
  /** The server that is master now, by the sentinel's word. */
  masterPort(): Promise<number>;
  /** Makes the replica the master; resolves when the sentinel says that it is. */
  failover(): Promise<void>;
  /** From now on nothing that the master does reaches its replica; `reconnect` ends that. */
  cutReplication(): Promise<void>;
  reconnect(): Promise<void>;
  /** Resolves when one of the two is the other's replica, and up to date. */
  untilReplicating(): Promise<void>;
  stop(): Promise<void>;
}

/** A master, a replica, and a sentinel over both, which misses a master after a second. */
export function startSentinelSet(): Promise<SentinelSet>;

export interface RedisCluster {
  /** First the masters, then the replicas. */
  readonly servers: readonly RedisServer[];
  readonly nodes: readonly { readonly host: string; readonly port: number }[];
  stop(): Promise<void>;
}

export interface RedisClusterOptions {
  /** How many replicas each master has; none by default. */
  readonly replicas?: number;
}

/** `size` masters, 3 by default, each with its share of the slots. */
export function startRedisCluster(size?: number, options?: RedisClusterOptions): Promise<RedisCluster>;
