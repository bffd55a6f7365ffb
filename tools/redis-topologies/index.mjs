export { startRedisCluster } from './redis-cluster.mjs';
export { startSentinelSet } from './sentinel-set.mjs';
