import type { Config } from '../config.js';
import type { ServerName } from '../stores/servers.js';
import { serversOf } from '../stores/stores.js';

/** Each client is loaded when it is needed, as all of them take longer than the checks. */
const CHECKS: Readonly<Record<ServerName, (url: string) => Promise<void>>> = {
  redisUrl: async (url) => (await import('./check-redis.js')).checkRedis(url),
  databaseUrl: async (url) => (await import('./check-database.js')).checkDatabase(url),
  mysqlUrl: async (url) => (await import('./check-mysql.js')).checkMysql(url),
  etcdUrl: async (url) => (await import('./check-session-store.js')).checkEtcd(url),
  zookeeperHosts: async (hosts) => (await import('./check-session-store.js')).checkZookeeper(hosts),
};

/**
 * Checks every server that the environment names and the app uses.
 *
 * @throws Error within seconds, which names the attempt and the remedy
 */
export async function checkServers(config: Config): Promise<void> {
  const checks = serversOf(config.store).map(async (name) => {
    const url = config[name];
    if (url !== undefined) await CHECKS[name](url);
  });
  await Promise.all(checks);
}
