import { findRedisServer } from '#redis-server';

/** For faults that reach into the server's files or memory. @returns {string | undefined} why they cannot */
export function missingProcess() {
  return findRedisServer().container ? 'it needs a Redis outside of a container' : undefined;
}
