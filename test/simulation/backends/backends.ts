import { InputError } from '../input-error.js';
import type { Backend } from './backend.js';

/** Loaded when they are used: one whose client takes time from Node's globals replaces these first. */
export const BACKENDS: Readonly<Record<string, () => Promise<Backend>>> = {
  documents: async () => (await import('./documents/documents.js')).documents,
  redis: async () => (await import('./redis/redis.js')).redis,
  quorum: async () => (await import('./quorum/quorum.js')).quorum,
  etcd: async () => (await import('./etcd/etcd.js')).etcd,
  zookeeper: async () => (await import('./zookeeper/zookeeper.js')).zookeeper,
};

/** @throws InputError for a name that no back end has */
export async function backendOf(name: string): Promise<Backend> {
  const load = Object.hasOwn(BACKENDS, name) ? BACKENDS[name] : undefined;
  if (!load)
    throw new InputError(`The store is one of ${Object.keys(BACKENDS).join(', ')}, and not "${name}"`);
  return load();
}
