// The list of stores. `nest add`, the terminal command, the README, the API pages, the manifest of the package and tests read it.
// After a change: npm run generate

/** How well a store is supported. All of them pass the same contract tests. */
type StoreMaturity = 'core' | 'supported' | 'for those who run it already';

interface ListedStore {
  /** The name for `nest add --store`, and the path below the package name from which it is imported. */
  readonly name: string;
  readonly product: string;
  readonly maturity: StoreMaturity;
  /** The name of the function that makes the store. */
  readonly factory: string;
  /**
   * The path of its `index.ts` below the sources, without the ending. The memory store is exported from the root of the package.
   */
  readonly module: string;
  /** Required client packages, with the version range in package.json. */
  readonly peers?: Readonly<Record<string, string>>;
  /** Client packages that the store accepts instead of those in `peers`: their names, and the range of versions of each. */
  readonly otherPeers?: Readonly<Record<string, string>>;
  /** The cells of its row in the README, as Markdown. */
  readonly readme: { readonly call: string; readonly holds: string };
  /** How `nest add` sets it up. Absent for a quorum, which consists of other stores, so a command cannot set it up. */
  readonly nestAdd?: {
    /** The description behind the name in the prompt. */
    readonly label: string;
    /** The argument of the factory as code. Absent: the module is registered without a store. */
    readonly argument?: string;
    /** The steps that are left to do by hand, for the person who ran the command. */
    readonly leftByHand: string;
  };
  /** How the terminal command recognises the store by its URL. */
  readonly command?: {
    readonly schemes: readonly string[];
    readonly usage: string;
    /** The option that says in which table, or under which root, the locks are. */
    readonly place?: 'table' | 'root';
  };
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
export type OfferedStore = ListedStore & Required<Pick<ListedStore, 'nestAdd'>>;

export const OFFERED_STORES = STORES.filter((it): it is OfferedStore => it.nestAdd !== undefined);

/** The module specifier from which applications import the store. */
export function importPathOf({ name, module }: ListedStore): string {
  return module === 'index' ? 'nestjs-distributed-lock' : `nestjs-distributed-lock/${name}`;
}
