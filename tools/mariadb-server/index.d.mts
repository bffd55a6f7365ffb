import type { OwnServer } from '../own-server/index.d.mts';

/**
 * `mysql://root@127.0.0.1:<port>/test`, where everybody is a superuser without a password. What was committed survives
 * `kill`.
 */
export type MariadbServer = OwnServer;

export interface MariadbServerOptions {
  /** More settings, as `{ max_connections: 20 }`. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** More variables for its environment. */
  readonly env?: NodeJS.ProcessEnv;
}

/** How to run a MariaDB server on this machine. */
export interface MariadbCommand {
  readonly command: string;
  /** Where its messages are, when it is not installed. */
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** What `mariadbd --version` says. */
  readonly version: string;
  /** MariaDB refuses to run as root: whom to run it as instead. Empty for everybody else. */
  readonly user: { readonly uid?: number; readonly gid?: number };
}

/**
 * The first of: `MARIADB_BIN`, a path; `mariadbd` on the PATH or in /usr/sbin; the distribution's packages, unpacked below
 * node_modules/.cache without installing them (Debian, Ubuntu).
 *
 * @throws Error that says what to do when there is none
 */
export function findMariadbServer(): MariadbCommand;

/**
 * The user that the server will run as must be able to run it: root's own folders are closed to others.
 *
 * @returns what the program says of its version; `undefined` if this user cannot run it
 */
export function versionOfMariadb(
  command: string,
  env: NodeJS.ProcessEnv,
  user: MariadbCommand['user'],
): string | undefined;

export function startMariadbServer(options?: MariadbServerOptions): Promise<MariadbServer>;
