import type { PGlite } from '@electric-sql/pglite';

/**
 * An empty Postgres inside this process, in memory.
 *
 * To make the empty database takes Postgres some seconds. The first call keeps it in a file, and all later calls, in any
 * process, start from there.
 */
export function openEmbeddedPostgres(): Promise<PGlite>;
