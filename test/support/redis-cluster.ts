export { startRedisCluster, type RedisCluster } from '#redis-topologies';
