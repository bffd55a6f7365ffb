import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis, type RedisOptions } from 'ioredis';
import { spawnGuarded } from '#processes';
import { findRedisServer, startRedisServer, type RedisServer } from '#redis-server';
import { until } from './until.js';

const NAME = 'locks';

export interface SentinelSet {
  readonly options: RedisOptions;
  readonly servers: readonly RedisServer[];
  /** The server that is master now, by the sentinel's word. */
  masterPort(): Promise<number>;
  /** Makes the replica the master; resolves when the sentinel says that it is. */
  failover(): Promise<void>;
  stop(): Promise<void>;
}

/** A master, a replica, and a sentinel over both. */
export async function startSentinelSet(): Promise<SentinelSet> {
  const master = await startRedisServer();
  const replica = await startRedisServer({
    args: ['--replicaof', '127.0.0.1', `${master.port}`, '--repl-diskless-sync-delay', '0'],
  });
  await untilReplicating(replica);
  const { port, stop: stopSentinel } = await startSentinel(master.port);
  const sentinel = new Redis(port, '127.0.0.1', { retryStrategy: () => 50 });
  sentinel.on('error', () => undefined);
  const masterPort = async () => {
    const [, found] = (await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME)) as string[];
    return Number(found);
  };
  await until(async () => {
    const replicas = (await sentinel.call('SENTINEL', 'REPLICAS', NAME)) as unknown[];
    return JSON.stringify(replicas).includes('"master-link-status","ok"') || isLinked(replicas);
  });
  return {
    options: { sentinels: [{ host: '127.0.0.1', port }], name: NAME },
    servers: [master, replica],
    masterPort,
    async failover() {
      const before = await masterPort();
      await until(async () => (await sentinel.call('SENTINEL', 'FAILOVER', NAME)) === 'OK');
      await until(async () => (await masterPort()) !== before);
    },
    async stop() {
      sentinel.disconnect();
      await stopSentinel();
      await Promise.all([master.stop(), replica.stop()]);
    },
  };
}

/** RESP3 answers with maps, which the client gives as objects. */
function isLinked(replicas: readonly unknown[]): boolean {
  return replicas.some(
    (replica) =>
      typeof replica === 'object' &&
      replica !== null &&
      'master-link-status' in replica &&
      replica['master-link-status'] === 'ok',
  );
}

async function untilReplicating({ url }: RedisServer): Promise<void> {
  const client = new Redis(url);
  await until(async () => (await client.info('replication')).includes('master_link_status:up'));
  client.disconnect();
}

/** A sentinel writes into its configuration, so it must be a file. */
async function startSentinel(masterPort: number): Promise<{ port: number; stop: () => Promise<void> }> {
  const { command, env } = findRedisServer();
  const folder = await mkdtemp(join(tmpdir(), 'redis-sentinel-'));
  const port = await freePort();
  const file = join(folder, 'sentinel.conf');
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor ${NAME} 127.0.0.1 ${masterPort} 1`,
    `sentinel down-after-milliseconds ${NAME} 1000`,
    `sentinel failover-timeout ${NAME} 5000`,
  ];
  await writeFile(file, `${lines.join('\n')}\n`);
  const { child, exited } = spawnGuarded(command, [file, '--sentinel'], { env, folder });
  return {
    port,
    async stop() {
      child.kill('SIGKILL');
      await exited;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo;
      probe.close(() => resolve(port));
    });
  });
}
