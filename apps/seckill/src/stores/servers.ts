/** A kind of server that the app can use. */
export interface ServerKind {
  /** The variable of the environment that names one. */
  readonly variable: string;
  readonly product: string;
  /** The product that is started where none is named. */
  readonly ownProduct: string;
  readonly example: string;
  readonly protocols: readonly string[];
}

/** By the name of its address in the config. */
export const SERVERS = {
  redisUrl: {
    variable: 'REDIS_URL',
    product: 'Redis',
    ownProduct: 'Redis',
    example: 'redis://host:6379',
    protocols: ['redis:', 'rediss:'],
  },
  databaseUrl: {
    variable: 'DATABASE_URL',
    product: 'Postgres',
    ownProduct: 'Postgres',
    example: 'postgres://user@host/name',
    protocols: ['postgres:', 'postgresql:'],
  },
  mysqlUrl: {
    variable: 'MYSQL_URL',
    product: 'MySQL',
    ownProduct: 'MariaDB',
    example: 'mysql://user@host/name',
    protocols: ['mysql:'],
  },
} as const satisfies Readonly<Record<string, ServerKind>>;

export type ServerName = keyof typeof SERVERS;

/** The addresses of the servers; `undefined` for one that the environment does not name. */
export type ServerUrls = Readonly<Record<ServerName, string | undefined>>;
