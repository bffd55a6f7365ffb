import { createClient } from 'redis';
import type { RedisTarget } from 'nestjs-distributed-lock/redis';

/** The libraries by which `redisStore` connects. */
export const LIBRARIES = ['ioredis', 'node-redis'] as const;
export type Library = (typeof LIBRARIES)[number];

/** What `redisStore` is given for a server: its URL, or a client of node-redis, which is never connected. */
export function targetOf(library: Library, url: string): RedisTarget {
  return library === 'ioredis' ? url : createClient({ url });
}
