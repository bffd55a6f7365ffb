/** The stores that a trial can run on: `--store`. @type {readonly import('./index.d.mts').StoreName[]} */
export const STORES = ['redis', 'postgres', 'mysql', 'mariadb', 'etcd', 'zookeeper'];
/** Stores with a lock table. */
export const SQL = ['postgres', 'mysql', 'mariadb'];
/** Stores whose locks end with the session of their holder. */
export const SESSIONS = ['etcd', 'zookeeper'];
