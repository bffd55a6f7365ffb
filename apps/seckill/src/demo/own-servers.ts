import { startEtcdServer } from '#etcd-server';
import { startMariadbServer } from '#mariadb-server';
import { startPostgresServer } from '#postgres-server';
import { startRedisServer, type RedisServer } from '#redis-server';
import { startZookeeperServer } from '#zookeeper-server';
import { reasonOf } from '../preflight/reason-of.js';
import { SERVERS, type ServerName } from '../stores/servers.js';

/** A server that was started here. It ends with this process, even if this process is killed. */
export type OwnServer = RedisServer;

/** Enough for eight instances, each with a pool of ten for the goods and two for the locks. */
const CONNECTIONS = 200;

const START: Readonly<Record<ServerName, () => Promise<OwnServer>>> = {
  redisUrl: startRedisServer,
  databaseUrl: () => startPostgresServer({ settings: { max_connections: CONNECTIONS } }),
  mysqlUrl: startMariadbServer,
  etcdUrl: startEtcdServer,
  zookeeperHosts: startZookeeperServer,
};

/** @throws Error that says how to get a server when this machine has none */
export async function startServer(name: ServerName): Promise<OwnServer> {
  try {
    return await START[name]();
  } catch (error) {
    const { variable, example } = SERVERS[name];
    throw new Error(`${reasonOf(error)}\nOr name a server of yours: ${variable}=${example}`, {
      cause: error,
    });
  }
}
