export interface StoreSetup {
  /** Path of the package behind its name, and the function that makes the store. */
  readonly path: string;
  readonly factory: string;
  /** Code of the function's argument. */
  readonly argument: string;
  /**
   * The optional peers that the store needs, with the range of the package: npm then finds a version that the other
   * packages of the app accept too. TypeORM, for one, takes no ioredis 6.
   */
  readonly peers?: Readonly<Record<string, string>>;
  /** For the person who ran the command. */
  readonly leftByHand: string;
}

/** Stores that `--store` offers beside `memory`. A test compares them with the package's exports and peers. */
export const STORES: Readonly<Record<string, StoreSetup>> = {
  redis: {
    path: 'redis',
    factory: 'redisStore',
    argument: "process.env.REDIS_URL ?? 'redis://localhost:6379'",
    peers: { ioredis: '^5.4.0 || ^6.0.0' },
    leftByHand: 'Set REDIS_URL where the app runs. Without it the store connects to redis://localhost:6379.',
  },
  postgres: {
    path: 'postgres',
    factory: 'postgresStore',
    argument: "process.env.DATABASE_URL ?? 'postgres://localhost:5432/postgres'",
    peers: { pg: '^8.11.0' },
    leftByHand:
      'Set DATABASE_URL where the app runs. Without it the store connects to postgres://localhost:5432/postgres. ' +
      'It creates the table nest_lock on first use, unless a migration of yours does.',
  },
  mysql: {
    path: 'mysql',
    factory: 'mysqlStore',
    argument: "process.env.MYSQL_URL ?? 'mysql://localhost:3306/test'",
    peers: { mysql2: '^3.9.0' },
    leftByHand:
      'Set MYSQL_URL where the app runs. Without it the store connects to mysql://localhost:3306/test. ' +
      'It creates the table nest_lock on first use, unless a migration of yours does.',
  },
  sqlite: {
    path: 'sqlite',
    factory: 'sqliteStore',
    argument: "process.env.LOCK_FILE ?? 'locks.sqlite'",
    leftByHand:
      'Set LOCK_FILE to a path that all processes of the host share. Without it the store uses locks.sqlite in the ' +
      'working directory. It needs Node 22.13 or later.',
  },
  etcd: {
    path: 'etcd',
    factory: 'etcdStore',
    argument: "process.env.ETCD_URL ?? 'http://localhost:2379'",
    peers: { '@grpc/grpc-js': '^1.14.0', '@grpc/proto-loader': '^0.7.0 || ^0.8.0' },
    leftByHand:
      'Set ETCD_URL where the app runs, or write the list of the members. Without it the store connects to ' +
      'http://localhost:2379.',
  },
  zookeeper: {
    path: 'zookeeper',
    factory: 'zookeeperStore',
    argument: "process.env.ZOOKEEPER_SERVERS ?? 'localhost:2181'",
    leftByHand:
      'Set ZOOKEEPER_SERVERS where the app runs, as zk1:2181,zk2:2181,zk3:2181. Without it the store connects to ' +
      'localhost:2181.',
  },
};

export const MEMORY_LEFT_BY_HAND =
  'Locks live in memory and hold within one process. Before you run several instances, give forRoot a store, such as ' +
  '{ store: redisStore(url) } of nestjs-distributed-lock/redis.';
