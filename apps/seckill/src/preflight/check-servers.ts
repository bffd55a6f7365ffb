import type { Config } from '../config.js';
import type { ServerName } from '../stores/servers.js';
import { serversOf } from '../stores/stores.js';
import { checkDatabase } from './check-database.js';
import { checkMysql } from './check-mysql.js';
import { checkRedis } from './check-redis.js';
import { checkEtcd, checkZookeeper } from './check-session-store.js';

const CHECKS: Readonly<Record<ServerName, (url: string) => Promise<void>>> = {
  redisUrl: checkRedis,
  databaseUrl: checkDatabase,
  mysqlUrl: checkMysql,
  etcdUrl: checkEtcd,
  zookeeperHosts: checkZookeeper,
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
