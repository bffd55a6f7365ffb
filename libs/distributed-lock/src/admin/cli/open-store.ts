import { existsSync } from 'node:fs';
import type { LockStoreFactory } from '../../port/lock-store.js';
import { WrongUse, type Command } from './command-line.js';

const SCHEMES = 'redis, rediss, postgres, postgresql, mysql, sqlite, file, etcd, etcds, zookeeper';

/**
 * Loads the store that a URL names, and no other.
 *
 * @throws WrongUse for a URL of no store, and when the package of its client is not installed
 */
export async function openStore(command: Command): Promise<LockStoreFactory> {
  try {
    return await storeOf(command);
  } catch (error) {
    throw missingPackage(error) ?? error;
  }
}

async function storeOf({ name, store: url, table, root, timeoutMs }: Command): Promise<LockStoreFactory> {
  const [, scheme = ''] = /^([a-z]+):/i.exec(url) ?? [];
  const [, givenUser, givenPassword, hosts = ''] =
    /^[a-z]+:\/\/(?:([^:@/]*)(?::(.*))?@)?(.*)$/is.exec(url) ?? [];
  const user = givenUser && decoded(givenUser);
  const password = givenPassword && decoded(givenPassword);
  const timeout = { commandTimeoutMs: timeoutMs };
  const access = name === 'release' ? ('write' as const) : ('read' as const);
  const ofTable = { ...timeout, access, ...(table !== undefined && { table }) };
  const ofRoot = { ...timeout, ...(root !== undefined && { root }) };
  switch (scheme.toLowerCase()) {
    case 'redis':
    case 'rediss':
      return (await import('../../stores/redis/index.js')).redisStore(url, timeout);
    case 'postgres':
    case 'postgresql':
      return (await import('../../stores/sql/postgres/index.js')).postgresStore(url, ofTable);
    case 'mysql':
      return (await import('../../stores/sql/mysql/index.js')).mysqlStore(url, ofTable);
    case 'sqlite':
    case 'file': {
      const file = url.replace(/^(sqlite|file):(\/\/)?/i, '');
      const parameter = /\?([\w-]+)=/.exec(file)?.[1];
      if (parameter !== undefined) {
        throw new WrongUse(
          `--store cannot follow the parameter "${parameter}": a file has none. Leave it out.`,
        );
      }
      // The store would make an empty file.
      if (!existsSync(file)) throw new WrongUse(`There is no file "${file}".`);
      return (await import('../../stores/sql/sqlite/index.js')).sqliteStore(file, ofTable);
    }
    case 'etcd':
    case 'etcds': {
      const protocol = scheme.toLowerCase() === 'etcd' ? 'http' : 'https';
      const endpoints = hosts.replace(/\/(?=$|\?)/, '').split(',');
      const auth = user !== undefined && password !== undefined && { auth: { user, password } };
      const { etcdStore } = await import('../../stores/etcd/index.js');
      return etcdStore(
        endpoints.map((host) => `${protocol}://${host}`),
        { ...ofRoot, ...auth },
      );
    }
    case 'zookeeper': {
      const auth = user !== undefined && { auth: `${user}:${password ?? ''}` };
      return (await import('../../stores/zookeeper/index.js')).zookeeperStore(hosts, { ...ofRoot, ...auth });
    }
    default:
      throw new WrongUse(`--store is a URL that begins with one of ${SCHEMES} and a colon.`);
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new WrongUse(
      'A user or a password of --store has a % that begins no encoded character. Write it as %25.',
    );
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
