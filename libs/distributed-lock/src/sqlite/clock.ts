import { timeOfDay, type Clock } from '../common/clock.js';

/**
 * The time of day of this host in microseconds, which all processes on the file share. The last three digits keep the requests of
 * one process in order. After the clock of the host was set, these may all be 0 or 999.
 */
export function microsecondsOf(clock: Clock): () => number {
  const startedAt = performance.timeOrigin + performance.now() - clock.now();
  return () => {
    const ms = timeOfDay(clock);
    const within = Math.floor((startedAt + clock.now() - ms) * 1000);
    return ms * 1000 + Math.min(999, Math.max(0, within));
  };
}
