import { timeOfDay, type Clock } from '../common/clock.js';

/**
 * Returns the time of day in microseconds, from the clock of this host that all processes on the file share. `timeOfDay` has only
 * milliseconds, so the last three digits come from this process's own clock, to keep its requests in order. If somebody sets the
 * host's clock, they may be 000 or 999 from then on.
 */
export function microsecondsOf(clock: Clock): () => number {
  const startedAt = performance.timeOrigin + performance.now() - clock.now();
  return () => {
    const ms = timeOfDay(clock);
    const within = Math.floor((startedAt + clock.now() - ms) * 1000);
    return ms * 1000 + Math.min(999, Math.max(0, within));
  };
}
