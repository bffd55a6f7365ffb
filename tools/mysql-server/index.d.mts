import type { OwnServer } from '../own-server/index.d.mts';

/** A superuser without a password: `mysql://root@127.0.0.1:<port>/test`. What was committed survives `kill`. */
export type MysqlServer = OwnServer;

export interface MysqlServerOptions {
  /** More settings, as `{ max_connections: 20, super_read_only: 'ON' }`. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** More variables for its environment. */
  readonly env?: NodeJS.ProcessEnv;
}

/** How to run a MySQL server on this machine. */
export interface MysqlCommand {
  readonly command: string;
  /** Where its files are, when it is not installed. */
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** What `mysqld --version` says, without its path. */
  readonly version: string;
  /** MySQL refuses to run as root: whom to run it as instead. Empty for everybody else. */
  readonly user: { readonly uid?: number; readonly gid?: number };
}

/**
 * The first of: `MYSQL_BIN`, a path; `mysqld` on the PATH or in /usr/sbin, unless it is MariaDB's; MySQL 8.0.33 from Maven
 * Central, unpacked to node_modules/.cache (Linux on x64). That archive has half a gigabyte, so that it is fetched only
 * with `large`, which is true by default where `CI` is.
 *
 * @throws Error that says what to do when there is none
 */
export function findMysqlServer(options?: { readonly large?: boolean }): MysqlCommand;

export function startMysqlServer(options?: MysqlServerOptions): Promise<MysqlServer>;
