/**
 * What `npm test` leaves to `npm run test:all`: what takes long, what kills, cuts and freezes real servers and processes, and
 * what a busy machine can make fail. Each is a part of a path below `test/`. A name on the command line runs in either lane.
 */
export const SLOW_LANE = [
  // What makes much garbage, or asks a real server the same.
  'core/leaks',
  'simulation/redis/compare',
  // Faults of real servers, connections and processes, and many processes at once.
  'redis/access-rights',
  'redis/faults/',
  'redis/forged-notifications',
  'redis/keys/names',
  'redis/wire/',
  'nest/context/storms',
  // The contract of stores on its other set-ups: on real Redis it waits for the machine's clock, and `npm test` has it on the
  // simulated Redis, with the real scripts and client.
  'quorum/conformance',
  'redis/conformance/',
  'nest/edge/streams/dropped',
  'nest/edge/transports/',
  // A browser, child processes, a SQL server, fresh projects.
  'docs/api',
  'docs/compare',
  'docs/first-lock',
  'docs/recipes-',
  'docs/when-not-to-lock',
  'fencing/held-until-commit',
  'fencing/sql',
  'fencing/transactions',
  'admin/browser',
  'admin/cli',
  'admin/redis',
  'leader/redis',
  'observe/boot',
  'repo/bench/',
  'repo/chaos/trials',
  'repo/editor',
  'repo/tools/',
  'seckill/demo',
  'seckill/live',
  'seckill/page',
  'seckill/preflight',
  'seckill/redis-down',
  'seckill/report',
];

/**
 * The suites that take longest of either lane and of `npm run test:stores`. They begin first, in this order, so that none ends
 * alone. Those that wait stand beside those that need a core.
 */
export const LONGEST = [
  'simulation/simulation',
  'seckill/no-oversell',
  'docs/snippets',
  'nest/context/strangers',
  'beside-sources/core',
  'observe/secrets',
  'admin/guard',
  'seckill/demo',
  'core/leaks',
  'seckill/page',
  'repo/bench/bench',
  'redis/conformance/',
  'seckill/one-database',
  'stores/sqlite/sqlite',
  'stores/etcd/contract',
  'stores/bench',
  'stores/mysql/faults',
  'stores/held-until-commit',
  'seckill/session-stores',
  'stores/zookeeper/cluster',
  'stores/postgres/contract',
  'stores/zookeeper/contract',
  'stores/mysql/contract',
];
