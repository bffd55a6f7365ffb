import type { Clock } from './clock.js';
import { giveUpAfter } from './turns.js';

/** Settles as `work` does, or resolves with `late` as soon as `giveUpAfter` does after `ms`, while `work` goes on. */
export async function within<T, Late>(
  clock: Clock,
  ms: number,
  work: Promise<T>,
  late: Late,
): Promise<T | Late> {
  let cancel = (): void => undefined;
  const over = new Promise<Late>((resolve) => (cancel = giveUpAfter(clock, ms, () => resolve(late))));
  return Promise.race([work, over]).finally(() => cancel());
}
