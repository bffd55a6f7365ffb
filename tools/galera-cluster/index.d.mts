import type { MariadbCommand } from '../mariadb-server/index.d.mts';
import type { Member, OwnCluster } from '../own-cluster/index.d.mts';

/** `mysql://root@127.0.0.1:<port>/test`, where everybody is a superuser without a password. What was committed survives `kill`. */
export type GaleraNode = Omit<Member, 'isLeader'>;

export interface GaleraCluster extends Pick<OwnCluster, 'untilHealthy' | 'stop'> {
  readonly members: readonly GaleraNode[];
}

export interface GaleraClusterOptions {
  /** 3 by default. */
  readonly size?: number;
  /** More settings of each node, as `{ wsrep_slave_threads: 4 }`. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** More variables for the environment of the node with this id. */
  readonly envOf?: (id: number) => NodeJS.ProcessEnv;
}

/** How to run a node of Galera on this machine. */
export interface GaleraCommand extends MariadbCommand {
  /** The library of Galera that MariaDB loads. */
  readonly library: string;
}

/**
 * The first of: `MARIADB_BIN` or the `mariadbd` of the machine, with the Galera library of `GALERA_LIBRARY` or of the machine; the
 * distribution's packages, unpacked below node_modules/.cache without installing them (Debian, Ubuntu).
 *
 * @throws Error that says what to do when there is none
 */
export function findGalera(): GaleraCommand;

/**
 * Starts MariaDB servers that are one Galera cluster. A node that is killed and restarted gets from the others the writes that it
 * has missed, as long as they have kept them (16 MB).
 */
export function startGaleraCluster(options?: GaleraClusterOptions): Promise<GaleraCluster>;
