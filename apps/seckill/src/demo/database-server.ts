import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { openEmbeddedPostgres } from '#embedded-postgres';

export interface DatabaseServer {
  readonly url: string;
  close(): Promise<void>;
}

/** Enough for the connection pools of 20 processes; the default is one connection. */
const CONNECTIONS = 200;

/**
 * The embedded Postgres of this process, served to others on 127.0.0.1.
 *
 * All clients share one session: they take turns by statement, or by transaction where one is open. So all state of a
 * session in Postgres (SET, LISTEN, advisory locks beyond a transaction) is shared by all clients here.
 */
export async function startDatabaseServer(): Promise<DatabaseServer> {
  const postgres = await openEmbeddedPostgres();
  const server = new PGLiteSocketServer({ db: postgres, port: 0, maxConnections: CONNECTIONS });
  await server.start();
  return {
    url: `postgres://postgres@${server.getServerConn()}/postgres`,
    async close() {
      await server.stop();
      await postgres.close();
    },
  };
}
