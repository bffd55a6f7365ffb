import { createRequire } from 'node:module';
import type * as Ioredis from 'ioredis';
import { LockConfigurationError } from '../../../port/lock.errors.js';

/**
 * Loads ioredis, for a target that is a URL or options. An application that gives a client of node-redis need not install it.
 *
 * @throws LockConfigurationError if it is not installed, or is part of a bundle
 */
export function loadIoredis(): typeof Ioredis {
  const ioredis = findIoredis();
  if (ioredis) return ioredis;
  throw new LockConfigurationError(
    'redisStore connects to a URL or to options by the package ioredis, which it does not find. Run npm install ioredis. In a bundle, where no package is found, give redisStore a client: new Redis(url) of ioredis, or createClient({ url }) of node-redis.',
  );
}

/** @returns `undefined` where it is not installed, or is part of a bundle */
export function findIoredis(): typeof Ioredis | undefined {
  try {
    return createRequire(import.meta.url)('ioredis') as typeof Ioredis;
  } catch {
    return undefined;
  }
}

/** The defaults of the options of ioredis, which the options of a client repeat. */
export function defaultOptions(): object | undefined {
  return (findIoredis()?.Redis as unknown as { readonly defaultOptions?: object } | undefined)
    ?.defaultOptions;
}
