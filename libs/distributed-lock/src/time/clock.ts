import { uptime as uptimeInSeconds } from 'node:os';
import { interval, type Observable } from 'rxjs';

/**
 * The only source of time in the library, so that tests can use a manual clock.
 *
 * `now()` is monotonic: it never goes back, and setting the machine's clock does not move it.
 */
export interface Clock {
  /** Milliseconds since some fixed moment in the past. */
  now(): number;
  /**
   * Milliseconds of the time of day, which may be set. While a machine is suspended, a monotonic clock may stand still, and
   * the time of day goes on. A holder whose time of day has run ahead by more than its lease asks the store before it
   * believes in its lock. Without this method a suspend is not noticed.
   */
  timeOfDay?(): number;
  /** Runs `task` once after `ms`; the returned function cancels it. */
  after(ms: number, task: () => void): () => void;
  /** Emits every `ms` until unsubscribed. */
  interval(ms: number): Observable<unknown>;
}

/** The lead of the time of day over the monotonic clock. It grows while the machine is suspended, and when its clock is set forward. */
export function leadOf(clock: Clock): number {
  return readClocks(clock).lead;
}

/** The monotonic time, and the lead of the time of day over it. */
export function readClocks(clock: Clock): { readonly now: number; readonly lead: number } {
  // Read first, because it may find out how long the machine was suspended, which `now` then includes.
  const timeOfDay = clock.timeOfDay?.();
  const now = clock.now();
  return { now, lead: timeOfDay === undefined ? 0 : timeOfDay - now };
}

/** The times of a machine, in ms. */
interface TimeSources {
  readonly monotonic: () => number;
  readonly timeOfDay: () => number;
  /** Time since the start of the machine, suspends included. Need not be exact. */
  readonly uptime: () => number;
}

/** Shorter differences come from clocks that are adjusted, and from the uptime of Linux, which counts in 10 ms. */
const LEAST_SLEEP_MS = 1000;

/** A monotonic clock that counts the time for which the machine was suspended, which Node's does not on Linux. */
export function awakeClock(sources: TimeSources): Required<Pick<Clock, 'now' | 'timeOfDay'>> {
  const { monotonic, timeOfDay, uptime } = sources;
  const awakeUntilNow = uptime() - monotonic();
  let sleptMs = 0;
  let comparedAt = timeOfDay();
  let lead = comparedAt - monotonic();
  return {
    now: () => monotonic() + sleptMs,
    timeOfDay() {
      const time = timeOfDay();
      // A suspend moves the time of day at least as far. So most calls need not read the monotonic clock.
      if (time >= comparedAt && time - comparedAt <= LEAST_SLEEP_MS) return time;
      const leadNow = time - monotonic();
      // The uptime takes a system call, so it is read only when the time of day has jumped.
      if (leadNow - lead > LEAST_SLEEP_MS) {
        const slept = uptime() - monotonic() - awakeUntilNow;
        if (slept - sleptMs > LEAST_SLEEP_MS) sleptMs = slept;
      }
      [comparedAt, lead] = [time, leadNow];
      return time;
    },
  };
}

/** Node refuses longer delays and would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The clock of the machine, which services use by default. */
export const systemClock: Clock = {
  ...awakeClock({
    monotonic: () => performance.now(),
    timeOfDay: () => Date.now(),
    uptime: () => uptimeInSeconds() * 1000,
  }),
  after(ms, task) {
    const timer = setTimeout(task, Math.min(ms, LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  },
  interval: (ms) => interval(ms),
};
