/** What the suites of stores other than Redis run on, in the order in which it is fetched. */
export const SERVER_NAMES: readonly ServerName[];
export type ServerName = 'postgres' | 'pgbouncer' | 'mariadb' | 'galera' | 'mysql' | 'etcd' | 'zookeeper';

/**
 * Finds a server on this machine, or fetches it. A download of half a gigabyte needs `large`, which is true by default
 * where `CI` is.
 *
 * @returns `undefined` when it is there, otherwise why not and what to do
 */
export function whyMissing(name: ServerName, options?: { readonly large?: boolean }): string | undefined;
