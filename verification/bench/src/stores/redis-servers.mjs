import { REDIS_CLUSTER } from '../../contestants/index.mjs';
import { AllObservers } from '../measure/all-observers.mjs';
import { census } from '../measure/census.mjs';
import { HOW_SERVERS } from '../report/how-servers.mjs';
import { engineScenarios, FEW_SCENARIOS, FEW_TURNS } from '../scenarios/engines.mjs';

const SERVERS = { server: 'Redis', sent: 'commands', limits: {} };
const ACKS_ALONE = { peers: () => [] };

/** Three masters, each with a third of the slots. @type {import('./store.d.mts').BenchedStore} */
export const redisCluster = {
  id: 'redis-cluster',
  name: 'Redis Cluster, three masters',
  how: HOW_SERVERS['redis-cluster'],
  brief: FEW_TURNS,
  scenarios: engineScenarios({ ...SERVERS, contestants: REDIS_CLUSTER }).filter(FEW_SCENARIOS),
  async open() {
    const { startRedisCluster } = await import('#redis-topologies');
    const cluster = await startRedisCluster();
    const { servers } = cluster;
    const url = servers[0].url.replace('redis:', 'redis-cluster:');
    return contextOf({ servers, url, stop: () => cluster.stop() });
  },
};

/** A master and its replica, which has to have each grant. @type {import('./store.d.mts').BenchedStore} */
export const redisAcks = {
  id: 'redis-acks',
  name: 'Redis, minReplicaAcks: 1',
  how: HOW_SERVERS['redis-acks'],
  brief: FEW_TURNS,
  scenarios: engineScenarios({ ...SERVERS, contestants: ACKS_ALONE }).filter(FEW_SCENARIOS),
  async open() {
    const { startRedisServer } = await import('#redis-server');
    const { until } = await import('#until');
    const { Redis } = await import('ioredis');
    const master = await startRedisServer();
    const args = ['--replicaof', '127.0.0.1', `${master.port}`, '--repl-diskless-sync-delay', '0'];
    const replica = await startRedisServer({ args });
    const eyes = new Redis(replica.url);
    await until(async () => (await eyes.info('replication')).includes('master_link_status:up'));
    eyes.disconnect();
    const stop = async () => {
      await Promise.all([master.stop(), replica.stop()]);
    };
    return contextOf({ servers: [master], url: master.url.replace('redis:', 'redis-acks:'), stop });
  },
};

/** @param {{ servers: readonly { url: string }[], url: string, stop: () => Promise<void> }} opened @returns {Promise<Omit<import('./store.d.mts').Context, 'ms' | 'warmUpMs'>>} */
async function contextOf({ servers, url, stop }) {
  const { RedisObserver } = await import('../measure/redis-observer.mjs');
  const observer = new AllObservers(servers.map((server) => new RedisObserver(server.url)));
  const shares = new Map();
  return {
    url,
    observer,
    sharesOf({ id, command }) {
      if (!shares.has(id)) shares.set(id, census(observer, command, url, !id.startsWith('floor')));
      return shares.get(id);
    },
    async close() {
      observer.close();
      await stop();
    },
  };
}
