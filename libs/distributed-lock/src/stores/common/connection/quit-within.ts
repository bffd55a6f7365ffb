import type { Clock } from '../../../time/clock.js';

/**
 * Ends a connection gracefully. Resolves when the server has replied, when the connection has closed, after which no reply can
 * come, or after `withinMs`.
 */
export function quitWithin(
  client: { once(event: 'close', listener: () => void): unknown },
  clock: Clock,
  withinMs: number,
  quit: () => Promise<unknown>,
): Promise<void> {
  return new Promise((resolve) => {
    const settle = (): void => {
      cancel();
      resolve();
    };
    const cancel = clock.after(withinMs, settle);
    client.once('close', settle);
    quit().then(settle, settle);
  });
}
