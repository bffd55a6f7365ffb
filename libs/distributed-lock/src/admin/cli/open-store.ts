import { existsSync } from 'node:fs';
import type { LockStoreFactory } from '../../port/lock-store.js';
import { WrongUse, type Command } from './command-line.js';

interface Place {
  /** The URL as it was given. */
  readonly url: string;
  /** The URL without its scheme, slashes, user and password. */
  readonly hosts: string;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly table: { readonly table?: string };
  readonly root: { readonly root?: string };
  readonly timeout: { readonly commandTimeoutMs: number };
}

type Open = (place: Place) => Promise<LockStoreFactory>;

const openRedis: Open = async ({ url, timeout }) =>
  (await import('../../stores/redis/index.js')).redisStore(url, timeout);

const openPostgres: Open = async ({ url, table, timeout }) =>
  (await import('../../stores/sql/postgres/index.js')).postgresStore(url, { ...table, ...timeout });

const openMysql: Open = async ({ url, table, timeout }) =>
  (await import('../../stores/sql/mysql/index.js')).mysqlStore(url, { ...table, ...timeout });

const openSqlite: Open = async ({ url, table, timeout }) => {
  const file = url.replace(/^(sqlite|file):(\/\/)?/i, '');
  // The store would make one.
  if (!existsSync(file)) throw new WrongUse(`There is no file "${file}".`);
  return (await import('../../stores/sql/sqlite/index.js')).sqliteStore(file, { ...table, ...timeout });
};

const openEtcd =
  (scheme: 'http' | 'https'): Open =>
  async ({ hosts, user, password, root, timeout }) => {
    const { etcdStore } = await import('../../stores/etcd/index.js');
    const auth = user !== undefined && password !== undefined && { auth: { user, password } };
    const endpoints = hosts
      .replace(/\/$/, '')
      .split(',')
      .map((host) => `${scheme}://${host}`);
    return etcdStore(endpoints, { ...root, ...timeout, ...auth });
  };

const openZookeeper: Open = async ({ hosts, user, password, root, timeout }) => {
  const { zookeeperStore } = await import('../../stores/zookeeper/index.js');
  const auth = user !== undefined && { auth: `${user}:${password ?? ''}` };
  return zookeeperStore(hosts, { ...root, ...timeout, ...auth });
};

const STORES: Readonly<Record<string, Open>> = {
  redis: openRedis,
  rediss: openRedis,
  postgres: openPostgres,
  postgresql: openPostgres,
  mysql: openMysql,
  sqlite: openSqlite,
  file: openSqlite,
  etcd: openEtcd('http'),
  etcds: openEtcd('https'),
  zookeeper: openZookeeper,
};

/**
 * Loads the store that a URL names, and no other.
 *
 * @throws WrongUse for a URL of no store, and when the package of its client is not installed
 */
export async function openStore({ store: url, table, root, timeoutMs }: Command): Promise<LockStoreFactory> {
  const [, scheme = ''] = /^([a-z]+):/i.exec(url) ?? [];
  const open = STORES[scheme.toLowerCase()];
  if (!open) {
    throw new WrongUse(
      `--store is a URL that begins with one of ${Object.keys(STORES).join(', ')} and a colon.`,
    );
  }
  const [, user, password, hosts = ''] = /^[a-z]+:\/\/(?:([^:@/]*)(?::(.*))?@)?(.*)$/is.exec(url) ?? [];
  try {
    return await open({
      url,
      hosts,
      user: user && decodeURIComponent(user),
      password: password && decodeURIComponent(password),
      table: table === undefined ? {} : { table },
      root: root === undefined ? {} : { root },
      timeout: { commandTimeoutMs: timeoutMs },
    });
  } catch (error) {
    throw missingPackage(error) ?? error;
  }
}

function missingPackage(error: unknown): WrongUse | undefined {
  const { code, message } = error as { readonly code?: unknown; readonly message?: string };
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') return undefined;
  const [, name = 'of its client'] = /'([^'./][^']*)'/.exec(message ?? '') ?? [];
  return new WrongUse(
    `This store needs the package ${name}, which is not installed here: npm install ${name}`,
  );
}
