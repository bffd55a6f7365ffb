import { Redis } from 'ioredis';
import { startRedisServer } from '../redis-server/index.mjs';
import { until } from '../until/index.mjs';

const SLOTS = 16_384;
const CLUSTER = [
  '--cluster-enabled',
  'yes',
  '--cluster-node-timeout',
  '2000',
  '--repl-diskless-sync-delay',
  '0',
];

/** @type {import('./index.d.mts').startRedisCluster} */
export async function startRedisCluster(size = 3, { replicas = 0 } = {}) {
  const count = size * (1 + replicas);
  const servers = await Promise.all(Array.from({ length: count }, () => startRedisServer({ args: CLUSTER })));
  const clients = servers.map(({ url }) => new Redis(url));
  const stop = async () => {
    await Promise.all(servers.map((server) => server.stop()));
  };
  try {
    for (const [i, client] of clients.entries()) {
      // Different epochs from the start: nodes with the same one would have to sort that out first.
      await client.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
      if (i >= size) continue;
      const [from, to] = [i, i + 1].map((n) => Math.floor((n * SLOTS) / size));
      // Redis 6.2 takes no range.
      await client.cluster('ADDSLOTS', ...Array.from({ length: to - from }, (_, slot) => from + slot));
    }
    for (const { port } of servers.slice(1)) await clients[0].cluster('MEET', '127.0.0.1', port);
    await untilKnown(clients, count);
    await Promise.all(clients.slice(size).map((client, i) => follow(client, clients[i % size])));
  } catch (error) {
    await stop();
    throw error;
  } finally {
    for (const client of clients) client.disconnect();
  }
  return { servers, nodes: servers.map(({ port }) => ({ host: '127.0.0.1', port })), stop };
}

/** @param {readonly Redis[]} clients @param {number} count */
async function untilKnown(clients, count) {
  await until(async () => {
    const infos = await Promise.all(clients.map((client) => client.cluster('INFO')));
    return infos.every(
      (info) => info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${count}`),
    );
  });
}

/** @param {Redis} client @param {Redis} master */
async function follow(client, master) {
  await client.cluster('REPLICATE', await master.cluster('MYID'));
  await until(async () => (await client.info('replication')).includes('master_link_status:up'));
}
