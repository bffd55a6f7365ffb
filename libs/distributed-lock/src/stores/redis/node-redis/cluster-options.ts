import { LockConfigurationError } from '../../../port/lock.errors.js';
import { givenOptions, mappedPlace, optionsAt, type AddressMap, type Place } from './given-options.js';
import { patternOf } from './load-node-redis.js';
import type { NodeRedisCluster, NodeRedisOptions, NodeRedisPattern } from './node-redis.target.js';

/** The options of `createCluster` that the store reads. */
export interface ClusterOptions {
  readonly rootNodes: readonly NodeRedisOptions[];
  /** Options of the connections to all nodes. */
  readonly defaults?: NodeRedisOptions;
  readonly keyPrefix?: string | Buffer;
  readonly nodeAddressMap?: AddressMap;
}

/** @throws LockConfigurationError without `rootNodes`, and unless `duplicate` passes the options on, which a later release may change */
export function clusterOptions(target: NodeRedisCluster): ClusterOptions {
  const found = givenOptions(target) as ClusterOptions | undefined;
  if (Array.isArray(found?.rootNodes) && found.rootNodes.length > 0) return found;
  throw new LockConfigurationError(
    'redisStore finds no rootNodes in the options of this client for a cluster: name one node or more, as createCluster({ rootNodes: [{ url }] }) of node-redis 5 or later does.',
  );
}

/** Clients for the node that the cluster calls `place`. */
export function patternAt(read: () => ClusterOptions, place: Place): NodeRedisPattern {
  return patternOf(() => {
    const { defaults, nodeAddressMap } = read();
    return optionsAt(defaults, mappedPlace(nodeAddressMap, place));
  });
}

/** Clients for the nodes that the application has named. */
export function rootPatterns(read: () => ClusterOptions): readonly NodeRedisPattern[] {
  return read().rootNodes.map((_, i) =>
    patternOf(() => {
      const { defaults, rootNodes } = read();
      const root = rootNodes[i];
      return { ...defaults, ...root, socket: { ...defaults?.socket, ...root?.socket } };
    }),
  );
}
