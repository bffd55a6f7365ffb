import { createConnection } from 'mysql2/promise';
import { reasonOf } from './reason-of.js';
import { within, WITHIN_MS } from './within.js';
import { withoutSecrets } from './without-secrets.js';

/** @throws Error within seconds, which names the attempt and the remedy */
export async function checkMysql(url: string, withinMs = WITHIN_MS): Promise<void> {
  // Its own limit only drops the connection that was given up here.
  const connecting = createConnection({ uri: url, connectTimeout: withinMs + 100 });
  try {
    await within(
      withinMs,
      connecting.then((connection) => connection.ping()),
    );
  } catch (error) {
    throw new Error(
      `MYSQL_URL names ${withoutSecrets(url)}, but no MySQL can be used there: ${reasonOf(error)}.
Start a MySQL or MariaDB there, correct MYSQL_URL, or leave it out: then none of yours is needed.`,
      { cause: error },
    );
  } finally {
    connecting.then((connection) => connection.destroy()).catch(() => {});
  }
}
