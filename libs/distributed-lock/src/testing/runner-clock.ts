import { NEVER } from 'rxjs';
import type { Clock } from '../time/clock.js';
import { timerDelay } from '../time/timer-delay.js';

/**
 * The clock of `TestLocks`: that of the process, or that of the test runner's fake timers while they are installed.
 *
 * It never goes back, although `performance.now()` jumps when fake timers are installed or removed. A timer that fires
 * moves it on to the timer's end, because some fake timers leave `performance.now()` as it is. It has no `timeOfDay()`,
 * because tests set that as they like. It has no intervals, because `runAllTimers()` would run them for ever.
 */
export class RunnerClock implements Clock {
  /** How many ms this clock is ahead of `performance.now()`. */
  private aheadMs = 0;
  private latest = 0;

  now(): number {
    this.moveTo(this.latest);
    return (this.latest = performance.now() + this.aheadMs);
  }

  after(ms: number, task: () => void): () => void {
    const delay = timerDelay(ms);
    const dueAt = this.now() + delay;
    const timer = setTimeout(() => {
      this.moveTo(dueAt);
      task();
    }, delay);
    return () => clearTimeout(timer);
  }

  interval(): typeof NEVER {
    return NEVER;
  }

  private moveTo(least: number): void {
    this.aheadMs += Math.max(0, least - performance.now() - this.aheadMs);
  }
}
