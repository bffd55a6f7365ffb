import { Cluster } from 'ioredis';
import { quorumStore } from 'nestjs-distributed-lock/quorum';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { neverLocks } from './never-locks.mjs';

/**
 * The store that `target` in the settings of an app names: a URL or options of ioredis, `{ cluster: nodes }`, `{ quorum: urls }`,
 * `{ postgres: url }`, `{ mysql: url }`, `{ etcd: urls }`, `{ zookeeper: hosts }`, or `never-locks`.
 *
 * @param {any} target @param {any} options of the store @param {any} [onNode] see quorumStore
 */
export async function storeOf(target, options, onNode) {
  if (target === 'never-locks') return neverLocks();
  const { cluster, quorum, postgres, mysql, etcd, zookeeper } = target;
  if (postgres) return (await import('nestjs-distributed-lock/postgres')).postgresStore(postgres, options);
  if (mysql) return (await import('nestjs-distributed-lock/mysql')).mysqlStore(mysql, options);
  if (etcd) return (await import('nestjs-distributed-lock/etcd')).etcdStore(etcd, options);
  if (zookeeper)
    return (await import('nestjs-distributed-lock/zookeeper')).zookeeperStore(zookeeper, options);
  if (!quorum) return redisStore(cluster ? new Cluster(cluster, { lazyConnect: true }) : target, options);
  // A quorum takes two commands of a node at most.
  const ofNode = { ...options, commandTimeoutMs: options.commandTimeoutMs / 2 };
  return quorumStore(
    quorum.map((url) => redisStore(url, ofNode)),
    { onNode },
  );
}
