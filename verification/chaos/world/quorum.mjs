import { startRedisServer } from '#redis-server';
import { TcpProxy } from '#tcp-proxy';
import { adminOf, remainsOf } from './admin.mjs';

/** Independent masters, and a network of its own between each process and each of them. @param {import('../index.d.mts').Kind} kind */
export async function openQuorum({ nodes = 3, serverArgs = [], shift: makeShift }) {
  const shift = makeShift?.();
  const servers = await Promise.all(
    Array.from({ length: nodes }, (_, node) =>
      startRedisServer({ args: serverArgs, env: node === 0 ? shift?.env : undefined }),
    ),
  );
  const admins = servers.map(({ url }) => adminOf(url));
  const networks = new Map();
  return {
    servers,
    /** Of the first node's clock. */
    shift,
    /** The networks between this process and each node. @param {string} app */
    networksOf: (app) => networks.get(app),
    /** The networks between each process and this node. @param {number} node */
    networksTo: (node) => [...networks.values()].map((each) => each[node]),
    async targetFor(app) {
      const proxies = await Promise.all(
        servers.map(({ port }) => TcpProxy.before(port, { keepsCommands: false })),
      );
      networks.set(app, proxies);
      return { quorum: proxies.map(({ url }) => url) };
    },
    remains: () => remainsOf(admins),
    sample: async () => ({ redisKeys: (await remainsOf(admins)).length }),
    async stop() {
      for (const admin of admins) admin.disconnect();
      await Promise.all([...networks.values()].flat().map((proxy) => proxy.close()));
      await Promise.all(servers.map((server) => server.stop()));
      shift?.remove();
    },
  };
}
