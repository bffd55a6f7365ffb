import pg from 'pg';
import { reasonOf } from './reason-of.js';
import { within, WITHIN_MS } from './within.js';
import { withoutSecrets } from './without-secrets.js';

/** @throws Error within seconds, which names the attempt and the remedy */
export async function checkDatabase(url: string, withinMs = WITHIN_MS): Promise<void> {
  // Its own limit only drops the connection that was given up here.
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: withinMs + 100 });
  client.on('error', () => {});
  try {
    await within(
      withinMs,
      client.connect().then(() => client.query('SELECT')),
    );
  } catch (error) {
    throw new Error(
      `DATABASE_URL names ${withoutSecrets(url)}, but no Postgres can be used there: ${reasonOf(error)}.
Start a Postgres there, correct DATABASE_URL, or leave it out: then none of yours is needed.`,
      { cause: error },
    );
  } finally {
    client.end().catch(() => {});
  }
}
