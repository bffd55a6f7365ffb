import { Redis } from 'ioredis';
import { reasonOf } from './reason-of.js';
import { within, WITHIN_MS } from './within.js';
import { withoutSecrets } from './without-secrets.js';

/** @throws Error within seconds, which names the attempt and the remedy */
export async function checkRedis(url: string, withinMs = WITHIN_MS): Promise<void> {
  const client = new Redis(url, { lazyConnect: true, enableReadyCheck: false, retryStrategy: () => null });
  // More telling than "Connection is closed", with which the commands are then rejected.
  let first: unknown;
  let connected = false;
  client.on('error', (error) => (first ??= error));
  client.on('connect', () => (connected = true));
  try {
    await within(
      withinMs,
      client.connect().then(() => client.ping()),
    );
  } catch (error) {
    const cause = first ?? error;
    // A Redis that refuses says so. Any other broken connection is to another program.
    const isForeign = connected && first !== undefined && !isReply(first);
    const reason = isForeign ? 'another program listens there' : reasonOf(cause);
    throw new Error(
      `REDIS_URL names ${withoutSecrets(url)}, but no Redis can be used there: ${reason}.
Start a Redis there, correct REDIS_URL, or leave it out: then none of yours is needed.`,
      { cause },
    );
  } finally {
    client.disconnect();
  }
}

function isReply(error: unknown): boolean {
  return (error as Error | undefined)?.name === 'ReplyError';
}
