import { setImmediate as turn } from 'node:timers/promises';
import { NEVER, Observable } from 'rxjs';
import { type Clock, timerDelay } from '../common/clock.js';

/**
 * A clock that stands still until a test moves it.
 *
 * Pass it as `clock` to the module or to a `LockService`, together with `memoryStore()`. Leases, waits and renewals then happen when
 * the test says so, without real waiting and in the same order each time.
 */
export class ManualClock implements Clock {
  private time = 0;
  private sleptMs = 0;
  /** The timers, in the order in which they are due. Of two that are due together the older one is first. */
  private readonly timers: Timer[] = [];

  /** The time in ms, beginning with 0. */
  now(): number {
    return this.time;
  }

  /** Returns `now()` plus what `suspend` has added. */
  timeOfDay(): number {
    return this.time + this.sleptMs;
  }

  /** Runs `task` one time, when the test has let `ms` pass. The returned function cancels it. */
  after(ms: number, task: () => void): () => void {
    const timer: Timer = { dueAt: this.time + Math.max(0, ms), task };
    const behind = this.timers.findIndex(({ dueAt }) => dueAt > timer.dueAt);
    this.timers.splice(behind < 0 ? this.timers.length : behind, 0, timer);
    return () => {
      const index = this.timers.indexOf(timer);
      if (index >= 0) this.timers.splice(index, 1);
    };
  }

  /** Emits each time that the test has let another `ms` pass, until unsubscribed. */
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

  /** How many timers are set, intervals included: 0 when whatever used this clock has cleaned up. */
  get pendingTimers(): number {
    return this.timers.length;
  }

  /** Lets `ms` pass. Fires each timer at its time, and runs what follows from it before the next timer. */
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

  /** Lets `ms` pass without firing any timer, as in a process whose event loop is blocked. */
  stall(ms: number): void {
    this.time += ms;
  }

  /** Moves only the time of day by `ms`, as if the machine had been suspended, or somebody had set its clock. Back if negative. */
  suspend(ms: number): void {
    this.sleptMs += ms;
  }

  /** Runs what is ready to run, without letting time pass. */
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
 * It never goes back, although `performance.now()` jumps when fake timers are installed or removed. When a timer fires, the clock moves
 * on to the end of that timer, because some fake timers do not move `performance.now()`. It has no `timeOfDay()`, because tests set the
 * time of day as they like. It has no intervals, because `runAllTimers()` would run them for ever.
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
