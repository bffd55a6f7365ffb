/**
 * What `npm test` leaves to `npm run test:all`: what takes long, what kills, cuts and freezes real servers and processes, and
 * what a busy machine can make fail. Each is a part of a path below `test/`. A name on the command line runs in either lane.
 */
export const SLOW_LANE = [
  // Random programs, and the same programs against more servers. The simulation has their place in `npm test`.
  'core/property/family',
  'core/property/leaks',
  'core/property/lock-service',
  'core/property/redis-scripts',
  'core/property/refusals',
  'core/property/sleeping-machines',
  'core/model/',
  'quorum/chaos',
  'quorum/nodes-away',
  'quorum/outage',
  'simulation/redis/compare',
  'simulation/mutants/',
  // Faults of real servers, connections and processes, and many processes at once.
  'redis/access-rights',
  'redis/faults/',
  'redis/forged-notifications',
  'redis/keys/names',
  'redis/storms/',
  'redis/wire/',
  'nest/context/memory',
  'nest/context/storms',
  // The contract of stores on its other set-ups: on real Redis it waits for the machine's clock, and `npm test` has it on the
  // simulated Redis, with the real scripts and client. Suites that run a second time with a Proxy around each provider.
  'core/register-conformance',
  'quorum/conformance',
  'redis/conformance/',
  '.proxied',
  'nest/edge/transports/',
  // A browser, child processes, a SQL server, fresh projects.
  'docs/api',
  'docs/compare',
  'docs/first-lock',
  'docs/recipes-',
  'fencing/held-until-commit',
  'fencing/sql',
  'fencing/transactions',
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
