import { interval, type Observable } from 'rxjs';

/**
 * The only source of time in the library, so that tests can move it by hand.
 *
 * `now()` is monotonic: it never goes back, and setting the machine's clock does not move it.
 */
export interface Clock {
  /** Milliseconds since some fixed moment in the past. */
  now(): number;
  /** Runs `task` once after `ms`; the returned function cancels it. */
  after(ms: number, task: () => void): () => void;
  /** Emits every `ms` until unsubscribed. */
  interval(ms: number): Observable<unknown>;
}

/** Node refuses longer delays and would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, task) {
    const timer = setTimeout(task, Math.min(ms, LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  },
  interval: (ms) => interval(ms),
};
