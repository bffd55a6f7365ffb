import { readClocks, type Clock } from '../../../time/clock.js';
import type { ServerClock } from '../../common/server-clock.js';
import type { RedisClient } from '../redis.client.js';
import { isDenied } from './redis.errors.js';

/** Asks the server for its time, because each command says in server time until when it may be executed. */
export async function measureTime(
  client: RedisClient,
  clock: Clock,
  serverClock: ServerClock,
): Promise<void> {
  const sent = readClocks(clock);
  try {
    const [seconds, micros] = (await client.call('time', [])) as [string, string];
    const receivedAt = clock.now();
    serverClock.learn(Number(seconds) * 1000 + Math.floor(Number(micros) / 1000), sent, receivedAt);
    serverClock.roundTripMs = receivedAt - sent.now;
  } catch (error) {
    // Without the right to TIME no acquire is granted, and its caller is told why.
    if (!isDenied(error)) throw error;
  }
}

/** Redisson publishes to sharded channels on a cluster whose servers have them, which is so from Redis 7 on. */
export type PublishCommand = 'PUBLISH' | 'SPUBLISH';

/** Asks as Redisson does whether the server has sharded channels. */
export async function publishCommandOf(client: RedisClient): Promise<PublishCommand> {
  if (!client.isCluster) return 'PUBLISH';
  return client.call('pubsub', ['SHARDNUMSUB']).then(
    () => 'SPUBLISH',
    () => 'PUBLISH',
  );
}
