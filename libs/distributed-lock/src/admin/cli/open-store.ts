import { existsSync } from 'node:fs';
import type { LockStoreFactory } from '../../port/lock-store.js';
import { STORES, importPathOf } from '../../stores.js';
import { WrongUse, type Command } from './command-line.js';

/**
 * Imports the store for the URL of `--store`, and no other store, so that only its client package must be installed.
 *
 * @throws WrongUse for a URL of no store, and when the package of its client is not installed
 */
export async function openStore(command: Command): Promise<LockStoreFactory> {
  try {
    return await storeOf(command);
  } catch (error) {
    throw missingPackageError(error) ?? error;
  }
}

async function storeOf(command: Command): Promise<LockStoreFactory> {
  const { store: url, table, root, timeoutMs } = command;
  const { scheme, ...address } = readUrl(url);
  const found = STORES.find((it) => it.command?.schemes.includes(scheme));
  if (!found) {
    const schemes = STORES.flatMap((it) => it.command?.schemes ?? []).join(', ');
    throw new WrongUse(`--store is a URL that begins with one of ${schemes} and a colon.`);
  }
  const access = command.name === 'release' ? 'write' : 'read';
  const { target, options } = TARGETS[found.name]?.({ scheme, ...address }) ?? { target: url, options: {} };
  // Import it by the name of the package, so that Node loads the same copy as for the application.
  const factories = (await import(importPathOf(found))) as Readonly<Record<string, StoreMaker>>;
  return factories[found.factory]!(target, {
    commandTimeoutMs: timeoutMs,
    ...(found.command?.place === 'table' && { access, ...(table !== undefined && { table }) }),
    ...(found.command?.place === 'root' && root !== undefined && { root }),
    ...options,
  });
}

type StoreMaker = (target: unknown, options: object) => LockStoreFactory;

interface Address {
  readonly url: string;
  readonly scheme: string;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly hosts: string;
}

function readUrl(url: string): Address {
  const [, scheme = ''] = /^([a-z]+):/i.exec(url) ?? [];
  const [, user, password, hosts = ''] = /^[a-z]+:\/\/(?:([^:@/]*)(?::(.*))?@)?(.*)$/is.exec(url) ?? [];
  return {
    url,
    scheme: scheme.toLowerCase(),
    user: user && decoded(user),
    password: password && decoded(password),
    hosts,
  };
}

interface Target {
  readonly target: unknown;
  readonly options: object;
}

/** For stores whose factory does not take the URL of `--store` as it is: converts the URL into the factory's argument. */
const TARGETS: Readonly<Record<string, (address: Address) => Target>> = {
  sqlite({ url }) {
    const file = url.replace(/^(sqlite|file):(\/\/)?/i, '');
    const parameter = /\?([\w-]+)=/.exec(file)?.[1];
    if (parameter !== undefined) {
      throw new WrongUse(
        `--store cannot follow the parameter "${parameter}": a file has none. Leave it out.`,
      );
    }
    // Check this first. The store would create the file.
    if (!existsSync(file)) throw new WrongUse(`There is no file "${file}".`);
    return { target: file, options: {} };
  },
  etcd({ scheme, user, password, hosts }) {
    const protocol = scheme === 'etcd' ? 'http' : 'https';
    const endpoints = hosts.replace(/\/(?=$|\?)/, '').split(',');
    const auth = user !== undefined && password !== undefined && { auth: { user, password } };
    return { target: endpoints.map((host) => `${protocol}://${host}`), options: { ...auth } };
  },
  zookeeper({ user, password, hosts }) {
    const auth = user !== undefined && { auth: `${user}:${password ?? ''}` };
    return { target: hosts, options: { ...auth } };
  },
};

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new WrongUse(
      'A user or a password of --store has a % that begins no encoded character. Write it as %25.',
    );
  }
}

function missingPackageError(error: unknown): WrongUse | undefined {
  const { code, message } = error as { readonly code?: unknown; readonly message?: string };
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') return undefined;
  const [, name = 'of its client'] = /'([^'./][^']*)'/.exec(message ?? '') ?? [];
  return new WrongUse(
    `This store needs the package ${name}, which is not installed here: npm install ${name}`,
  );
}
