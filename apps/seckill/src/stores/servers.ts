/** A kind of server that the app can use. */
export interface ServerKind {
  /** The variable of the environment that names one. */
  readonly variable: string;
  readonly product: string;
  /** The product that is started where none is named. */
  readonly ownProduct: string;
  readonly example: string;
  /** Whether a text may be the address of one. */
  readonly isAddress: (text: string) => boolean;
}

const urlOf =
  (...protocols: string[]) =>
  (text: string): boolean =>
    URL.canParse(text) && protocols.includes(new URL(text).protocol);

/** As ZooKeeper writes it: hosts with their ports, and the znode below which everything is. */
const HOSTS = /^[\w.-]+:\d+(,[\w.-]+:\d+)*(\/\S*)?$/;

/** By the name of its address in the config. */
export const SERVERS = {
  redisUrl: {
    variable: 'REDIS_URL',
    product: 'Redis',
    ownProduct: 'Redis',
    example: 'redis://host:6379',
    isAddress: urlOf('redis:', 'rediss:'),
  },
  databaseUrl: {
    variable: 'DATABASE_URL',
    product: 'Postgres',
    ownProduct: 'Postgres',
    example: 'postgres://user@host/name',
    isAddress: urlOf('postgres:', 'postgresql:'),
  },
  mysqlUrl: {
    variable: 'MYSQL_URL',
    product: 'MySQL',
    ownProduct: 'MariaDB',
    example: 'mysql://user@host/name',
    isAddress: urlOf('mysql:'),
  },
  etcdUrl: {
    variable: 'ETCD_URL',
    product: 'etcd',
    ownProduct: 'etcd',
    example: 'http://host:2379',
    isAddress: urlOf('http:', 'https:'),
  },
  zookeeperHosts: {
    variable: 'ZOOKEEPER_HOSTS',
    product: 'ZooKeeper',
    ownProduct: 'ZooKeeper',
    example: 'host:2181',
    isAddress: (text) => HOSTS.test(text),
  },
} as const satisfies Readonly<Record<string, ServerKind>>;

export type ServerName = keyof typeof SERVERS;

/** The addresses of the servers; `undefined` for one that the environment does not name. */
export type ServerUrls = Readonly<Record<ServerName, string | undefined>>;

/** `a Redis`, `an etcd`. */
export function aNamed(product: string): string {
  return `${/^[aeiou]/i.test(product) ? 'an' : 'a'} ${product}`;
}
