import { LockService, type LockStoreFactory } from 'nestjs-distributed-lock';
import { etcdStore } from 'nestjs-distributed-lock/etcd';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { SERVERS, type ServerName } from '../stores/servers.js';
import { reasonOf } from './reason-of.js';
import { within, WITHIN_MS } from './within.js';
import { withoutSecrets } from './without-secrets.js';

/** @throws Error within seconds, which names the attempt and the remedy */
export function checkEtcd(url: string): Promise<void> {
  return checkStore('etcdUrl', url, etcdStore(url));
}

/** @throws Error within seconds, which names the attempt and the remedy */
export function checkZookeeper(hosts: string): Promise<void> {
  return checkStore('zookeeperHosts', hosts, zookeeperStore(hosts));
}

/** A reading of the store needs a session, and the right to have one. */
async function checkStore(server: ServerName, address: string, store: LockStoreFactory): Promise<void> {
  const { variable, product } = SERVERS[server];
  const locks = new LockService({ store });
  try {
    await within(WITHIN_MS, locks.inspect('preflight'));
  } catch (error) {
    throw new Error(
      `${variable} names ${withoutSecrets(address)}, but no ${product} can be used there: ${reasonOf(error)}
Start one there, correct ${variable}, or leave it out: then none of yours is needed.`,
      { cause: error },
    );
  } finally {
    locks.close().catch(() => {});
  }
}
