import type { Member, OwnCluster } from '../own-cluster/index.d.mts';

/** `127.0.0.1:<port>`. What was answered survives `kill`. */
export type ZookeeperServer = Member;

export interface ZookeeperServerOptions {
  /** More lines of zoo.cfg, as `{ maxSessionTimeout: 2_000, 'authProvider.1': '…' }`. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** Makes clients use TLS: the server's key and certificate as PEM, and who signs clients' certificates, if they need one. */
  readonly tls?: { readonly key: string; readonly cert: string; readonly clientCa?: string };
  /** More properties of the JVM, as `{ 'jute.maxbuffer': 10_000 }`. */
  readonly properties?: Readonly<Record<string, string | number>>;
  /** More variables for its environment. */
  readonly env?: NodeJS.ProcessEnv;
}

/** How to run a ZooKeeper server on this machine. */
export interface ZookeeperCommand {
  /** The path of a Java. */
  readonly command: string;
  /** Its libraries, as `-cp` takes them. */
  readonly classPath: string;
}

/**
 * The first of: `ZOOKEEPER_HOME`, the folder of an unpacked release; ZooKeeper 3.9 from Maven Central with what it needs,
 * kept in node_modules/.cache. Either needs a Java. In CI, where there is neither Java nor Maven, installs both.
 *
 * @throws Error that says what to do when there is none
 */
export function findZookeeperServer(): ZookeeperCommand;

/** Sessions last 1 to 40 s by default; `tickTime` is 500 ms. */
export function startZookeeperServer(options?: ZookeeperServerOptions): Promise<ZookeeperServer>;

/** `size` members, 3 by default. What one says to another goes through `links`. */
export function startZookeeperCluster(size?: number, options?: ZookeeperServerOptions): Promise<OwnCluster>;
