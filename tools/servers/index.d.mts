/** What SQL suites run on, in the order in which it is fetched. */
export const SERVER_NAMES: readonly ServerName[];
export type ServerName = 'postgres' | 'pgbouncer' | 'mariadb';

/**
 * Finds a server on this machine, or fetches it.
 *
 * @returns `undefined` when it is there, otherwise why not and what to do
 */
export function whyMissing(name: ServerName): string | undefined;
