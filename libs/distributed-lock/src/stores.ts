// The list of stores. `nest add`, the terminal command, the README, the API pages, the manifest of the package and tests read it.
// After a change: npm run generate

/** How far we stand behind a store. All of them pass the same contract. */
type StoreMaturity = 'core' | 'supported' | 'for those who run it already';

interface ListedStore {
  /** What `nest add --store` calls it, and its path of the package. */
  readonly name: string;
  readonly product: string;
  readonly maturity: StoreMaturity;
  /** The function that makes the store. */
  readonly factory: string;
  /** Its `index.ts` without the ending, from the root of the sources on. The root of the package exports the one in memory. */
  readonly module: string;
  /** Client packages that the store cannot do without, with the range of the package. */
  readonly peers?: Readonly<Record<string, string>>;
  /** Client packages that it takes in place of those. */
  readonly otherPeers?: Readonly<Record<string, string>>;
  /** Its row in the README, in Markdown. */
  readonly readme: { readonly call: string; readonly holds: string };
  /** How `nest add` sets it up. A quorum is made of stores, so that no command can. */
  readonly nestAdd?: StoreSetup;
  /** How the terminal command finds it. */
  readonly command?: {
    readonly schemes: readonly string[];
    readonly usage: string;
    /** Which option says where the locks are. */
    readonly place?: 'table' | 'root';
  };
}

export interface StoreSetup {
  /** What the prompt says behind the name. */
  readonly label: string;
  /** Code of the factory's argument. Without it the module is registered without a store. */
  readonly argument?: string;
  /** For the person who ran the command. */
  readonly leftByHand: string;
}

export const STORES: readonly ListedStore[] = [
  {
    name: 'memory',
    product: 'Memory',
    maturity: 'core',
    factory: 'memoryStore',
    module: 'index',
    readme: { call: '`memoryStore()` (default)', holds: 'within one thread of one process' },
    nestAdd: {
      label: 'one process, for development and tests',
      leftByHand:
        'Locks live in memory and hold within one process. Before you run several instances, give forRoot a store, such as ' +
        '{ store: redisStore(url) } of nestjs-distributed-lock/redis.',
    },
  },
  {
    name: 'redis',
    product: 'Redis',
    maturity: 'core',
    factory: 'redisStore',
    module: 'redis/index',
    peers: { ioredis: '^5.4.0 || ^6.0.0' },
    otherPeers: { redis: '^5.0.0 || ^6.0.0' },
    readme: { call: '`redisStore(url)`', holds: 'across all processes that share one Redis' },
    nestAdd: {
      label: 'Redis 6.2 or later',
      argument: "process.env.REDIS_URL ?? 'redis://localhost:6379'",
      leftByHand:
        'Set REDIS_URL where the app runs. Without it the store connects to redis://localhost:6379.',
    },
    command: { schemes: ['redis', 'rediss'], usage: 'redis:// rediss://' },
  },
  {
    name: 'postgres',
    product: 'PostgreSQL',
    maturity: 'core',
    factory: 'postgresStore',
    module: 'postgres/index',
    peers: { pg: '^8.11.0' },
    readme: {
      call: '`postgresStore(url)`',
      holds: 'across all processes that share one table; also PGlite',
    },
    nestAdd: {
      label: 'PostgreSQL 13 or later',
      argument: "process.env.DATABASE_URL ?? 'postgres://localhost:5432/postgres'",
      leftByHand:
        'Set DATABASE_URL where the app runs. Without it the store connects to postgres://localhost:5432/postgres. ' +
        'It creates the table nest_lock on first use, unless a migration of yours does.',
    },
    command: { schemes: ['postgres', 'postgresql'], usage: 'postgres://', place: 'table' },
  },
  {
    name: 'mysql',
    product: 'MySQL and MariaDB',
    maturity: 'supported',
    factory: 'mysqlStore',
    module: 'mysql/index',
    peers: { mysql2: '^3.9.0' },
    readme: { call: '`mysqlStore(url)`', holds: 'the same, in MySQL and MariaDB' },
    nestAdd: {
      label: 'MySQL 8 or MariaDB 10.5, or later',
      argument: "process.env.MYSQL_URL ?? 'mysql://localhost:3306/test'",
      leftByHand:
        'Set MYSQL_URL where the app runs. Without it the store connects to mysql://localhost:3306/test. ' +
        'It creates the table nest_lock on first use, unless a migration of yours does.',
    },
    command: { schemes: ['mysql'], usage: 'mysql://', place: 'table' },
  },
  {
    name: 'sqlite',
    product: 'SQLite',
    maturity: 'supported',
    factory: 'sqliteStore',
    module: 'sqlite/index',
    readme: { call: '`sqliteStore(file)`', holds: 'across the processes of one host' },
    nestAdd: {
      label: 'a file, for the processes of one host',
      argument: "process.env.LOCK_FILE ?? 'locks.sqlite'",
      leftByHand:
        'Set LOCK_FILE to a path that all processes of the host share. Without it the store uses locks.sqlite in the ' +
        'working directory. It needs Node 22.13 or later.',
    },
    command: { schemes: ['sqlite', 'file'], usage: 'sqlite:<file>', place: 'table' },
  },
  {
    name: 'etcd',
    product: 'etcd',
    maturity: 'for those who run it already',
    factory: 'etcdStore',
    module: 'etcd/index',
    peers: { '@grpc/grpc-js': '^1.14.0', '@grpc/proto-loader': '^0.7.0 || ^0.8.0' },
    readme: { call: '`etcdStore(urls)`', holds: 'across all processes that share one cluster' },
    nestAdd: {
      label: 'etcd 3.4 or later',
      argument: "process.env.ETCD_URL ?? 'http://localhost:2379'",
      leftByHand:
        'Set ETCD_URL where the app runs, or write the list of the members. Without it the store connects to ' +
        'http://localhost:2379.',
    },
    command: { schemes: ['etcd', 'etcds'], usage: 'etcd:// etcds://', place: 'root' },
  },
  {
    name: 'zookeeper',
    product: 'ZooKeeper',
    maturity: 'for those who run it already',
    factory: 'zookeeperStore',
    module: 'zookeeper/index',
    readme: { call: '`zookeeperStore(servers)`', holds: 'the same, in ZooKeeper' },
    nestAdd: {
      label: 'ZooKeeper 3.5 or later',
      argument: "process.env.ZOOKEEPER_SERVERS ?? 'localhost:2181'",
      leftByHand:
        'Set ZOOKEEPER_SERVERS where the app runs, as zk1:2181,zk2:2181,zk3:2181. Without it the store connects to ' +
        'localhost:2181.',
    },
    command: { schemes: ['zookeeper'], usage: 'zookeeper://', place: 'root' },
  },
  {
    name: 'quorum',
    product: 'Quorum of several servers',
    maturity: 'supported',
    factory: 'quorumStore',
    module: 'quorum/index',
    readme: {
      call: '[`quorumStore([a, b, c])`](docs/quorum.md)',
      holds: 'across all processes that share these servers',
    },
  },
];

/** A store that `nest add` offers. */
export type OfferedStore = ListedStore & { readonly nestAdd: StoreSetup };

export const OFFERED_STORES = STORES.filter((it): it is OfferedStore => it.nestAdd !== undefined);

/** What one imports the store from. */
export function importPathOf({ name, module }: ListedStore): string {
  return module === 'index' ? 'nestjs-distributed-lock' : `nestjs-distributed-lock/${name}`;
}
