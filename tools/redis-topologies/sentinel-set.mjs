import { Redis } from 'ioredis';
import { startRedisServer } from '../redis-server/index.mjs';
import { until } from '../until/index.mjs';
import { startSentinel } from './sentinel.mjs';

const NAME = 'locks';
/** The replica is a user of its own, so that it can be shut out. */
const REPLICA_USER = ['--user', 'replica', 'on', '>secret', '~*', '&*', '+@all'];
const AS_REPLICA = ['--masteruser', 'replica', '--masterauth', 'secret', '--repl-diskless-sync-delay', '0'];
const SETTINGS = [...REPLICA_USER, ...AS_REPLICA];

/** @type {import('./index.d.mts').startSentinelSet} */
export async function startSentinelSet() {
  const master = await startRedisServer({ args: SETTINGS });
  const replica = await startRedisServer({
    args: [...SETTINGS, '--replicaof', '127.0.0.1', `${master.port}`],
  });
  const servers = [master, replica];
  const clients = servers.map(({ url }) => adminOf(url));
  await untilReplicating(clients);
  const { port, stop: stopSentinel } = await startSentinel(NAME, master.port);
  const sentinel = adminOf(`redis://127.0.0.1:${port}`);
  const masterPort = async () => {
    const [, found] = await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME);
    return Number(found);
  };
  await until(async () => isLinked(await sentinel.call('SENTINEL', 'REPLICAS', NAME)));
  const shutOut = (isOut) =>
    Promise.allSettled(
      clients.map(async (client) => {
        await client.acl('SETUSER', 'replica', isOut ? 'off' : 'on');
        if (isOut) await client.call('CLIENT', 'KILL', 'TYPE', 'replica');
      }),
    );
  return {
    options: { sentinels: [{ host: '127.0.0.1', port }], name: NAME },
    sentinelPort: port,
    servers,
    masterPort,
    async failover() {
      const before = await masterPort();
      await until(async () => (await sentinel.call('SENTINEL', 'FAILOVER', NAME)) === 'OK');
      await until(async () => (await masterPort()) !== before);
    },
    cutReplication: () => shutOut(true),
    reconnect: () => shutOut(false),
    untilReplicating: () => untilReplicating(clients),
    async stop() {
      for (const client of [sentinel, ...clients]) client.disconnect();
      await stopSentinel();
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
}

/** @param {string} url */
function adminOf(url) {
  const client = new Redis(url, { retryStrategy: () => 50, maxRetriesPerRequest: 1 });
  client.on('error', () => undefined);
  return client;
}

/** @param {readonly Redis[]} clients */
function untilReplicating(clients) {
  return until(async () => {
    const infos = await Promise.all(clients.map((client) => client.info('replication')));
    return infos.some((info) => info.includes('master_link_status:up'));
  });
}

/** RESP3 answers with maps, which the client gives as objects. @param {unknown} replicas */
function isLinked(replicas) {
  const text = JSON.stringify(replicas);
  return text.includes('"master-link-status","ok"') || text.includes('"master-link-status":"ok"');
}
