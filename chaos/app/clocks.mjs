import { systemClock } from 'nestjs-distributed-lock';

/**
 * A monotonic clock that runs at `rate` times the speed of the machine's.
 *
 * @param {number} rate @returns {import('nestjs-distributed-lock').Clock}
 */
export function clockOfRate(rate) {
  if (rate === 1) return systemClock;
  return {
    now: () => systemClock.now() * rate,
    after: (ms, task) => systemClock.after(ms / rate, task),
    interval: (ms) => systemClock.interval(ms / rate),
  };
}
