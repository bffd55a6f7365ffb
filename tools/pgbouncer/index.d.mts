import type { OwnServer } from '../own-server/index.d.mts';

/**
 * A connection pooler before a Postgres server: `postgres://postgres@127.0.0.1:<port>/postgres`. `pause`, `kill` and
 * `restart` are those of the pooler. The Postgres server goes on.
 */
export type Pgbouncer = OwnServer;

export interface PgbouncerOptions {
  /** How long a client keeps a connection of the server: for a transaction (the default), or for its session. */
  readonly mode?: 'transaction' | 'session';
  /** More settings, as `{ default_pool_size: 2 }`, or `{ max_prepared_statements: 100 }` from version 1.21. */
  readonly settings?: Readonly<Record<string, string | number>>;
}

/** How to run PgBouncer on this machine. */
export interface PgbouncerCommand {
  readonly command: string;
  readonly env: NodeJS.ProcessEnv;
  /** As 1.18. */
  readonly version: string;
  /** PgBouncer refuses to run as root: whom to run it as instead. Empty for everybody else. */
  readonly user: { readonly uid?: number; readonly gid?: number };
}

/**
 * The first of: `PGBOUNCER_BIN`, a path; `pgbouncer` on the PATH or in /usr/sbin; the distribution's package, unpacked below
 * node_modules/.cache without installing it (Debian, Ubuntu).
 *
 * @throws Error that says what to do when there is none
 */
export function findPgbouncer(): PgbouncerCommand;

/** @throws Error with its log, as for a setting that its version does not know */
export function startPgbouncer(
  postgres: { readonly port: number },
  options?: PgbouncerOptions,
): Promise<Pgbouncer>;
