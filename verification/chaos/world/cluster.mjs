import { startRedisCluster } from '#redis-topologies';
import { adminOf, remainsOf } from './admin.mjs';

const MASTERS = 3;

/** Three masters, each with a replica. */
export async function openCluster() {
  const cluster = await startRedisCluster(MASTERS, { replicas: 1 });
  const admins = cluster.servers.map(({ url }) => adminOf(url));
  const roles = () => Promise.all(admins.map(async (admin) => (await admin.call('ROLE'))[0]));
  const masters = async () => {
    const found = await roles();
    return admins.filter((_, i) => found[i] === 'master');
  };
  return {
    cluster,
    admins,
    masters,
    roles,
    targetFor: () => ({ cluster: cluster.nodes }),
    remains: async () => remainsOf(await masters()),
    sample: async () => ({ redisKeys: (await remainsOf(await masters())).length }),
    async stop() {
      for (const admin of admins) admin.disconnect();
      await cluster.stop();
    },
  };
}
