import type { Clock } from '../../../time/clock.js';
import type { StoreState } from '../../../port/lock-store.js';
import type { Client } from './redis.command.js';
import { describe, unreachable } from './redis.errors.js';

/**
 * Reports when there is no connection, from the start on, and when there is one again. A connection that is replaced within
 * `afterMs` is not reported, because no call has failed for it.
 *
 * @returns stops that
 */
export function watchOutage(
  client: Client,
  clock: Clock,
  afterMs: number,
  tell: (state: StoreState) => void,
): () => void {
  let lastError: Error | undefined;
  let downSince: number | undefined;
  let isTold = false;
  let cancel = (): void => undefined;
  const onDown = (): void => {
    if (downSince !== undefined) return;
    downSince = clock.now();
    cancel = clock.after(afterMs, () => {
      isTold = true;
      const last = lastError ? ` (last error: ${describe(lastError)})` : '';
      tell({
        isUp: false,
        error: unreachable(`no connection for ${afterMs} ms${last}`, undefined, lastError),
      });
    });
  };
  const onUp = (): void => {
    cancel();
    if (isTold && downSince !== undefined) tell({ isUp: true, afterMs: clock.now() - downSince });
    downSince = undefined;
    lastError = undefined;
    isTold = false;
  };
  client.on('error', (error: Error) => (lastError = error));
  client.on('ready', onUp);
  client.on('close', onDown);
  onDown();
  return () => {
    cancel();
    client.removeListener('ready', onUp);
    client.removeListener('close', onDown);
  };
}
