import { startSentinelSet } from '#redis-topologies';
import { adminOf, remainsOf } from './admin.mjs';

/** A master, its replica and a sentinel. */
export async function openSentinel() {
  const set = await startSentinelSet();
  const admins = set.servers.map(({ url }) => adminOf(url));
  const indexOfMaster = async () => {
    const port = await set.masterPort();
    return set.servers.findIndex((server) => server.port === port);
  };
  return {
    set,
    admins,
    master: async () => set.servers[await indexOfMaster()],
    adminOfMaster: async () => admins[await indexOfMaster()],
    targetFor: () => set.options,
    remains: async () => remainsOf([admins[await indexOfMaster()]]),
    sample: async () => ({ redisKeys: (await remainsOf([admins[await indexOfMaster()]])).length }),
    async stop() {
      for (const admin of admins) admin.disconnect();
      await set.stop();
    },
  };
}
