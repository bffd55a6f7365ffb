/** The libraries that the script runs, in the order of the columns. Each module opens its library. Peers are installed beside theirs. */
export const LIBRARIES = {
  'this library': () => import('./ours.mjs'),
  redlock: () => import('../peers/compare/redlock.mjs'),
  'redis-semaphore': () => import('../peers/compare/redis-semaphore.mjs'),
  murlock: () => import('../peers/compare/murlock.mjs'),
  'redlock-universal': () => import('../peers/compare/redlock-universal.mjs'),
  verrou: () => import('../peers/compare/verrou.mjs'),
  Redisson: () => import('./redisson.mjs'),
};
