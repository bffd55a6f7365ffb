import type { History, Pause } from './history.js';

/** docs/guarantees.md, time: a shorter sleep may go uncounted. */
export const MIN_SLEEP_MS = 100;
/** The uptime is read so often, whatever the other clocks show. */
const CHECK_MS = 1000;

/**
 * docs/guarantees.md, time: a clock that was set back by as much as the machine has slept, within 100 ms, hides the sleep, for a
 * second at most. Neither the time of day nor the monotonic clock shows then that anything has happened.
 *
 * @returns the sleeps of this process that are hidden, each with the second for which it stays so
 */
export function hiddenSleeps({ pauses }: Pick<History, 'pauses'>, process: string): readonly Pause[] {
  const own = pauses.filter((it) => it.process === process);
  const sleeps = own.filter(({ kind }) => kind === 'suspend');
  /** The library counts a second by the clock that stands still during a sleep. */
  const awake = (at: number): number =>
    sleeps.reduce((sum, { from, to }) => sum - Math.max(0, Math.min(to, at) - from), at);
  return own.flatMap((sleep): readonly Pause[] => {
    const { kind, from, to } = sleep;
    const near = own.filter(
      (it) => awake(it.to) >= awake(from) - CHECK_MS && awake(it.from) <= awake(to) + CHECK_MS,
    );
    // The clocks may have been compared between any two of them.
    const at = near.indexOf(sleep);
    const isHidden = near.some(
      (_, i) =>
        i <= at && near.some((_it, j) => j >= at && Math.abs(leadOf(near.slice(i, j + 1))) <= MIN_SLEEP_MS),
    );
    return kind === 'suspend' && isHidden ? [{ ...sleep, to: to + CHECK_MS }] : [];
  });
}

export function isSleepHidden(history: History, process: string, at: number): boolean {
  return hiddenSleeps(history, process).some(({ from, to }) => at >= from && at <= to);
}

/** How far the time of day has run ahead of the monotonic clock. */
function leadOf(pauses: readonly Pause[]): number {
  return pauses.reduce(
    (sum, { kind, from, to, setByMs = 0 }) => sum + (kind === 'suspend' ? to - from : setByMs),
    0,
  );
}
