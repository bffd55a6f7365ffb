import type { OwnServer } from '../own-server/index.d.mts';

/**
 * A superuser without a password: `postgres://postgres@127.0.0.1:<port>/postgres`.
 *
 * It survives `kill` with everything that was committed, as it writes its log before it answers. It does not wait for the
 * disk: what survives a killed process need not survive a power cut.
 */
export type PostgresServer = OwnServer;

export interface PostgresServerOptions {
  /** More settings, as `{ max_connections: 20, synchronous_commit: 'off' }`. */
  readonly settings?: Readonly<Record<string, string | number>>;
}

/** How to run a Postgres server on this machine. */
export interface PostgresCommand {
  /** The folder of `postgres` and `initdb`. */
  readonly bin: string;
  readonly env: NodeJS.ProcessEnv;
  /** Postgres refuses to run as root: whom to run it as instead. Empty for everybody else. */
  readonly user: { readonly uid?: number; readonly gid?: number };
}

/**
 * The first of: `POSTGRES_BIN`, a folder; `postgres` on the PATH; the newest below /usr/lib/postgresql; the
 * distribution's packages, unpacked below node_modules/.cache without installing them (Debian, Ubuntu).
 *
 * @throws Error that says what to do when there is none
 */
export function findPostgresServer(): PostgresCommand;

export function startPostgresServer(options?: PostgresServerOptions): Promise<PostgresServer>;
