/**
 * What `npm test` leaves to `npm run test:slow`: what takes long, what kills, cuts and freezes real servers and processes, and
 * what a busy machine can make fail. Each is a part of a path below `test/`. A name on the command line runs in either lane.
 */
export const SLOW_LANE = [
  // What makes much garbage, or asks a real server the same.
  'core/leaks',
  'simulation/redis/compare',
  // Needs Go: the nightly part `porcupine` runs it.
  'simulation/export/porcupine',
  // Faults of real servers, connections and processes, and many processes at once.
  'redis/access-rights',
  'redis/faults/',
  'redis/forged-notifications',
  'redis/keys/names',
  'redis/targets/',
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
  'docs/ten-minutes',
  'docs/when-not-to-lock',
  'fencing/held-until-commit',
  'fencing/sql',
  'fencing/transactions',
  'admin/browser',
  'admin/cli',
  'admin/redis',
  'bullmq/',
  'leader/redis',
  'observe/boot',
  'once/redis',
  'once/sql',
  'repo/bench/',
  'repo/chaos/trials',
  'repo/editor',
  'repo/tools/',
  'together/recipes',
  'together/redis-',
  'together/tools',
  'seckill/demo',
  'seckill/live',
  'seckill/page',
  'seckill/redis-down',
  'seckill/report',
];

/**
 * Suites that a lane runs as one, by the name of that one in test/together. A name on the command line runs each alone.
 *
 * @type {Record<string, readonly string[]>}
 */
export const TOGETHER = {
  docs: [
    'docs/claims',
    'docs/figures',
    'docs/keys',
    'docs/pictures',
    'docs/redisson',
    'docs/site',
    'docs/translations',
    'docs/troubleshooting',
    'repo/architecture/',
    'repo/map',
    'repo/release',
  ],
  'nest-edge': [
    'nest/edge/keys',
    'nest/edge/options',
    'nest/edge/traps/interceptors',
    'nest/edge/traps/methods',
    'nest/edge/traps/mocks',
    'nest/edge/undefined-options',
  ],
  'nest-edge-streams': [
    'nest/edge/streams/chains',
    'nest/edge/streams/handlers',
    'nest/edge/streams/methods',
    'nest/edge/streams/own-answers',
  ],
  leader: ['leader/declarations', 'leader/only-leader', 'leader/terms'],
  recipes: [
    'docs/recipes-fields',
    'docs/recipes-loss',
    'docs/recipes-match',
    'docs/recipes-stuck-lock',
    'docs/when-not-to-lock',
  ],
  'redis-conformance': ['redis/conformance/', 'redis/keys/names', 'redis/wire/'],
  'redis-faults': [
    'redis/faults/auto-pipelining',
    'redis/faults/clock-set-back',
    'redis/faults/connections',
    'redis/faults/idle-connections',
    'redis/faults/lost-data',
    'redis/faults/other-servers',
  ],
  'redis-faults-of-servers': [
    'redis/faults/refusals',
    'redis/faults/restart-guard',
    'redis/faults/rights',
    'redis/faults/server-away',
    'redis/faults/unheard',
    'redis/faults/processes/',
  ],
  'redis-topologies': [
    'redis/faults/topologies/cluster',
    'redis/faults/topologies/one-of-many',
    'redis/faults/topologies/sentinel',
    'redis/faults/topologies/silent-handshakes',
  ],
  tools: ['repo/tools/'],
  etcd: ['stores/etcd/'],
  mysql: ['stores/mysql/'],
  postgres: ['stores/postgres/'],
  zookeeper: ['stores/zookeeper/'],
};

/**
 * The suites that take longest of either lane and of `npm run test:stores`. They begin first, in this order, so that none ends
 * alone. Those that wait stand beside those that need a core.
 */
export const LONGEST = [
  'simulation/simulation',
  'seckill/no-oversell',
  'docs/snippets',
  'nest/context/strangers',
  'together/core',
  'observe/secrets',
  'admin/guard',
  'together/redis-',
  'seckill/demo',
  'core/leaks',
  'seckill/page',
  'repo/bench/bench',
  'together/zookeeper',
  'together/etcd',
  'together/postgres',
  'seckill/one-database',
  'stores/held-until-commit',
  'together/mysql',
  'stores/bench',
  'stores/sqlite/sqlite',
];

/**
 * The suites that `npm run nightly -- runtimes` runs on each version of Node: one for each thing that a version may change, which are
 * promises and async contexts, timers, streams, decorators and sockets. Each entry is a part of a path in the repository.
 */
export const ON_EACH_NODE = [
  'libs/distributed-lock/src/common/bound-listeners',
  'libs/distributed-lock/src/common/listeners',
  'libs/distributed-lock/src/lock/lock.service.spec',
  'libs/distributed-lock/src/lock/core/lease',
  'libs/distributed-lock/src/lock/core/suspend',
  'libs/distributed-lock/src/lock/core/watchdog',
  'test/nest/context/strangers',
  'test/nest/edge/streams/methods',
  'test/nest/integration/locked-providers',
  'test/redis/conformance/redis-shared-tokens',
  'test/redis/conformance/node-redis',
];
