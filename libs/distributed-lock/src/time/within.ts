import type { Clock } from './clock.js';

/** Settles as `work` does, or resolves with `late` after `ms`, while `work` goes on. */
export async function within<T, Late>(
  clock: Clock,
  ms: number,
  work: Promise<T>,
  late: Late,
): Promise<T | Late> {
  let cancel = (): void => undefined;
  const over = new Promise<Late>((resolve) => (cancel = clock.after(ms, () => resolve(late))));
  return Promise.race([work, over]).finally(() => cancel());
}
