import type { Redis } from 'ioredis';

/**
 * As Redisson waits: listens first, tries, then sleeps until a message comes or the time is over that it was told.
 *
 * @param attempt resolves with how long to sleep at most, in ms, or with `null` once it has what it wants
 */
export async function untilAcquired(
  subscriber: Redis,
  channel: string,
  attempt: () => Promise<number | null>,
): Promise<void> {
  let wake = (): void => undefined;
  const onMessage = (): void => wake();
  subscriber.on('message', onMessage);
  await subscriber.subscribe(channel);
  try {
    for (;;) {
      const woken = new Promise<void>((resolve) => (wake = resolve));
      const sleepMs = await attempt();
      if (sleepMs === null) return;
      const timer = setTimeout(wake, sleepMs);
      await woken;
      clearTimeout(timer);
    }
  } finally {
    await subscriber.unsubscribe(channel);
    subscriber.off('message', onMessage);
  }
}
