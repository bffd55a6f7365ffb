import type { Clock } from '../../../time/clock.js';
import { within } from '../../../time/within.js';

/**
 * Ends a connection gracefully. Resolves when the server has replied, when the connection has closed, after which no reply can
 * come, or after `withinMs`.
 */
export async function quitWithin(
  client: { once(event: 'close', listener: () => void): unknown },
  { clock, withinMs }: { readonly clock: Clock; readonly withinMs: number },
  quit: () => Promise<unknown>,
): Promise<void> {
  const closed = new Promise<void>((resolve) => client.once('close', resolve));
  const replied = quit().catch(() => undefined);
  await within(clock, withinMs, Promise.race([closed, replied]), undefined);
}
