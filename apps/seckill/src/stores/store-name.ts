/** The places for the locks, as `--store` and `STORE` name them. */
export const STORE_NAMES = ['memory', 'redis', 'postgres', 'mysql', 'etcd', 'zookeeper'] as const;

export type StoreName = (typeof STORE_NAMES)[number];
