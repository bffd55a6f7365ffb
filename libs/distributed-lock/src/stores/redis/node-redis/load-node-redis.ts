import { createRequire } from 'node:module';
import { LockConfigurationError } from '../../../port/lock.errors.js';
import type { NodeRedis, NodeRedisOptions, NodeRedisPattern } from './node-redis.target.js';

/** Duplicated for each pattern, because node-redis makes a new class for every client that is not a duplicate. */
let blank: NodeRedis | undefined;

/**
 * A pattern for clients of one server with the options that `read` returns then. node-redis itself makes it, because a client for Sentinels or
 * for a cluster makes no client of one server.
 *
 * @throws LockConfigurationError if node-redis is not installed, or is part of a bundle
 */
export function patternOf(read: () => NodeRedisOptions): NodeRedisPattern {
  const client = (blank ??= loadNodeRedis().createClient());
  return {
    get options() {
      return read();
    },
    duplicate: (own) => client.duplicate({ ...read(), ...own }),
  };
}

function loadNodeRedis(): { createClient(): NodeRedis } {
  try {
    return createRequire(import.meta.url)('redis') as { createClient(): NodeRedis };
  } catch (cause) {
    throw new LockConfigurationError(
      'redisStore connects to Sentinels and to clusters by node-redis, and the package redis is not to be found. Run npm install redis. In a bundle, where no package is found, leave redis outside of it, or give redisStore a client of ioredis.',
      { cause },
    );
  }
}
