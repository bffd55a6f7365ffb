import { Redis } from 'ioredis';
import { startRedisServer, type RedisServer } from '#redis-server';
import { until } from './until.js';

const SLOTS = 16_384;
const CLUSTER = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'];

export interface RedisCluster {
  readonly servers: readonly RedisServer[];
  readonly nodes: readonly { readonly host: string; readonly port: number }[];
  stop(): Promise<void>;
}

/** Masters only, each with its share of the slots. */
export async function startRedisCluster(size = 3): Promise<RedisCluster> {
  const servers = await Promise.all(Array.from({ length: size }, () => startRedisServer({ args: CLUSTER })));
  const clients = servers.map(({ url }) => new Redis(url));
  const stop = async () => {
    await Promise.all(servers.map((server) => server.stop()));
  };
  try {
    for (const [i, client] of clients.entries()) {
      const [from, to] = [i, i + 1].map((n) => Math.floor((n * SLOTS) / size)) as [number, number];
      await client.call('CLUSTER', 'ADDSLOTSRANGE', from, to - 1);
      // Different epochs from the start: nodes with the same one would have to sort that out first.
      await client.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
    }
    for (const { port } of servers.slice(1)) await clients[0]?.cluster('MEET', '127.0.0.1', port);
    await until(async () => {
      const infos = await Promise.all(clients.map((client) => client.cluster('INFO')));
      return infos.every(
        (info) => info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${size}`),
      );
    });
  } catch (error) {
    await stop();
    throw error;
  } finally {
    for (const client of clients) client.disconnect();
  }
  return { servers, nodes: servers.map(({ port }) => ({ host: '127.0.0.1', port })), stop };
}
