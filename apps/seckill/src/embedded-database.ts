import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { openEmbeddedPostgres } from '#embedded-postgres';

export interface EmbeddedDatabase {
  readonly url: string;
  close(): Promise<void>;
}

/** Enough for the connection pools of 15 processes. By default the server accepts one connection. */
const MAX_CONNECTIONS = 200;

/**
 * Starts a Postgres inside this process, in memory, and serves it to all processes of this machine.
 *
 * All clients share one session: they take turns by statement, or by transaction where one is open. So they also share
 * the state of a session (SET, LISTEN, advisory locks beyond a transaction).
 */
export async function startEmbeddedDatabase(): Promise<EmbeddedDatabase> {
  const postgres = await openEmbeddedPostgres();
  const server = new PGLiteSocketServer({ db: postgres, port: 0, maxConnections: MAX_CONNECTIONS });
  await server.start();
  return {
    url: `postgres://postgres@${server.getServerConn()}/postgres`,
    async close() {
      await server.stop();
      await postgres.close();
    },
  };
}
