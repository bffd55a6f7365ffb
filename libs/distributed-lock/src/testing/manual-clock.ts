import { setImmediate as turn } from 'node:timers/promises';
import { NEVER, Observable } from 'rxjs';
import type { Clock } from '../common/clock.js';
import { timerDelay } from '../common/clock.js';

/**
 * A clock that stands still until a test moves it.
 *
 * Give it to the module or to a `LockService` as `clock`, together with `memoryStore()`: leases, waits and renewals then
 * happen when the test says so, at once and in the same order each time.
 */
export class ManualClock implements Clock {
  private time = 0;
  private sleptMs = 0;
  /** The timers in the order in which they are due. The older one of two that are due together is first. */
  private readonly timers: Timer[] = [];

  /** The time in ms, 0 at first. */
  now(): number {
    return this.time;
  }

  /** As `now()`, plus what `suspend` has added. */
  timeOfDay(): number {
    return this.time + this.sleptMs;
  }

  /** Runs `task` once, when the test has let `ms` pass; the returned function cancels it. */
  after(ms: number, task: () => void): () => void {
    const timer: Timer = { dueAt: this.time + Math.max(0, ms), task };
    const behind = this.timers.findIndex(({ dueAt }) => dueAt > timer.dueAt);
    this.timers.splice(behind < 0 ? this.timers.length : behind, 0, timer);
    return () => {
      const index = this.timers.indexOf(timer);
      if (index >= 0) this.timers.splice(index, 1);
    };
  }

  /** Emits each time that the test has let `ms` pass, until unsubscribed. */
  interval(ms: number): Observable<number> {
    return new Observable((subscriber) => {
      let count = 0;
      const tick = (): void => {
        cancel = this.after(ms, tick);
        subscriber.next(count++);
      };
      let cancel = this.after(ms, tick);
      return () => cancel();
    });
  }

  /** Timers that wait for their time, intervals included: 0 when whatever used this clock has let go of it. */
  get pendingTimers(): number {
    return this.timers.length;
  }

  /** Lets `ms` pass: fires each timer at its time, and what follows from it before the next one. */
  async advance(ms: number): Promise<void> {
    const end = this.time + ms;
    await this.settle();
    for (let timer = this.timers[0]; timer && timer.dueAt <= end; timer = this.timers[0]) {
      this.timers.shift();
      this.time = Math.max(this.time, timer.dueAt);
      timer.task();
      await this.settle();
    }
    this.time = Math.max(this.time, end);
  }

  /** Lets `ms` pass without firing anything, as for a process whose event loop is stuck. */
  stall(ms: number): void {
    this.time += ms;
  }

  /** Lets the time of day jump, back if negative: as after the machine was suspended for `ms`, or somebody has set its clock. */
  suspend(ms: number): void {
    this.sleptMs += ms;
  }

  /** Runs what is ready to run, without any time passing. */
  async settle(): Promise<void> {
    await turn();
  }
}

interface Timer {
  readonly dueAt: number;
  readonly task: () => void;
}

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
