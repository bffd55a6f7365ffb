import { randomBytes, randomUUID } from 'node:crypto';
import { uptime as uptimeInSeconds } from 'node:os';
import { interval, Observable } from 'rxjs';
import { withoutContext } from './promises.js';

/**
 * The only source of time in the library, so that tests can use a manual clock.
 *
 * `now()` is monotonic: it never goes back, and setting the machine's clock does not move it. The default implementation also counts
 * the time for which the machine was suspended.
 */
export interface Clock {
  /** Milliseconds since some fixed moment in the past. */
  now(): number;
  /**
   * The time of day in ms, which somebody may set. While a machine is suspended, a monotonic clock may stand still, but the time of day
   * goes on. If the time of day has run ahead by more than a lease, the holder asks the store before it believes that it still has the
   * lock. Without this method the library does not notice a suspend.
   */
  timeOfDay?(): number;
  /** Runs `task` one time after `ms`; soon if `ms` is negative. The returned function cancels it. */
  after(ms: number, task: () => void): () => void;
  /** Emits every `ms` until unsubscribed. */
  interval(ms: number): Observable<unknown>;
  /**
   * Runs `task` in the next turn of the event loop, after what has arrived by now was read. Without this method the library uses
   * `setImmediate`.
   */
  nextTurn?(task: () => void): void;
}

/** Milliseconds since 1970, which other processes can compare with theirs. */
export function timeOfDay(clock: Clock): number {
  return clock.timeOfDay?.() ?? Date.now();
}

/**
 * One moment, read from both clocks. All work for one lock in one turn of the event loop shares a reading, because reading the clocks
 * takes as long as a local hand-off.
 */
export class ClockReading {
  constructor(
    /** The monotonic time in ms. */
    readonly now: number,
    /**
     * How far the time of day is ahead of the monotonic time, in ms. It grows while the machine is suspended, and when somebody sets
     * the clock forward.
     */
    readonly wallClockOffset: number,
  ) {}
}

/**
 * The name of an optional method of a clock that reads the monotonic time and the time of day together. Clocks that wrap another one have
 * it. It is a symbol, because the clock of an application may have methods of any name.
 */
const READ = Symbol('read');

export function readClocks(clock: Clock & { readonly [READ]?: () => ClockReading }): ClockReading {
  if (clock[READ]) return clock[READ]();
  if (clock === systemClock) return machine.read();
  // Read the time of day first: if the machine is suspended between the two readings, the offset must not come out larger.
  const timeOfDay = clock.timeOfDay?.();
  const now = clock.now();
  return new ClockReading(now, timeOfDay === undefined ? 0 : timeOfDay - now);
}

/** The sources of time of a machine, in ms. */
interface TimeSources {
  readonly monotonic: () => number;
  readonly timeOfDay: () => number;
  /** Time since the machine started, suspends included. Need not be exact. */
  readonly uptime: () => number;
}

/**
 * If the uptime runs ahead of the monotonic clock by less than this, that is not taken for a suspend: a clock is being adjusted,
 * or the uptime has steps of 10 ms, as on Linux.
 */
const MIN_SLEEP_MS = 100;
/** The same limit if the uptime counts in whole seconds, as on Linux without `/proc`. */
const MIN_COARSE_SLEEP_MS = 1000;
/** The uptime is read at least this often. Otherwise a suspend would go unnoticed if the clock was set back by as much as it lasted. */
const CHECK_MS = 1000;

/**
 * Makes a monotonic clock that also counts the time for which the machine was suspended. Node's own does not on Linux.
 *
 * The first reading after a suspend includes that time. If only a later reading did, the time between the two would seem too long, and a
 * lease of another process would look expired.
 */
export function awakeClock(sources: TimeSources): AwakeClock {
  const { monotonic, timeOfDay, uptime } = sources;
  const startedAt = uptime();
  const awakeUntilNow = startedAt - monotonic();
  // True while every uptime so far was a whole number of seconds. A finer uptime may look so by chance, until its first value with a
  // fraction.
  let isCoarse = startedAt % 1000 === 0;
  let sleptMs = 0;
  let checkedAt = -Infinity;
  let checkedOffset = 0;
  const countSleep = (): void => {
    // Read the monotonic clock last: if the process stalls between the two readings, that must not look like a suspend. A suspend that
    // such a stall hides is found by the next check.
    const up = uptime();
    const slept = up - monotonic() - awakeUntilNow;
    isCoarse &&= up % 1000 === 0;
    if (slept - sleptMs > (isCoarse ? MIN_COARSE_SLEEP_MS : MIN_SLEEP_MS)) sleptMs = slept;
  };
  const countFrom = (time: number, at: number): number => {
    const offset = time - at;
    // Reading the uptime is a system call, so read it only if the time of day has moved against the monotonic clock, as it does in a
    // suspend, and every `CHECK_MS`, in case somebody set the clock back by as much as the suspend lasted.
    if (Math.abs(offset - checkedOffset) > MIN_SLEEP_MS || at - checkedAt >= CHECK_MS) {
      countSleep();
      checkedAt = at;
      checkedOffset = offset;
    }
    return at + sleptMs;
  };
  return {
    timeOfDay,
    now: () => countFrom(timeOfDay(), monotonic()),
    read() {
      const time = timeOfDay();
      const now = countFrom(time, monotonic());
      return new ClockReading(now, time - now);
    },
  };
}

interface AwakeClock extends Required<Pick<Clock, 'now' | 'timeOfDay'>> {
  /**
   * Reads both times, for `readClocks`. `now()` reads the time of day as well, so calling `timeOfDay()` and `now()` would read it twice,
   * and two readings take nearly as long as a local hand-off.
   */
  read(): ClockReading;
}

const machine = awakeClock({
  monotonic: () => performance.now(),
  timeOfDay: () => Date.now(),
  uptime: () => uptimeInSeconds() * 1000,
});

/** The clock of the machine, which services use by default. */
export const systemClock: Clock = {
  now: machine.now,
  timeOfDay: machine.timeOfDay,
  after(ms, task) {
    const timer = setTimeout(task, timerDelay(ms));
    return () => clearTimeout(timer);
  },
  interval: (ms) => interval(ms),
};

/** The longest delay that Node's timers accept. With a longer one they would fire at once. */
const MAX_MS = 2 ** 31 - 1;

/** Turns a delay that may be negative or too long into one for `setTimeout`. From Node 24 on, a negative one causes a warning. */
export function timerDelay(ms: number): number {
  return Math.min(Math.max(0, ms), MAX_MS);
}

/** The same clock, but an error in a timer goes to `onError` and does not end the process. */
export function guardedClock(clock: Clock, onError: (error: unknown) => void): Clock {
  const guarded = (task: () => void) => (): void => {
    try {
      task();
    } catch (error) {
      onError(error);
    }
  };
  return { ...clock, after: (ms, task) => clock.after(ms, guarded(task)) };
}

/**
 * The same clock, but its timers run outside of every async context: a timer that one caller starts serves others, too, and must
 * not run with the first caller's locks.
 */
export function clockWithoutContext(clock: Clock): Clock & { readonly [READ]: () => ClockReading } {
  return {
    now: () => clock.now(),
    [READ]: () => readClocks(clock),
    ...(clock.timeOfDay && { timeOfDay: () => clock.timeOfDay?.() as number }),
    ...(clock.nextTurn && { nextTurn: (task) => clock.nextTurn?.(task) }),
    after: (ms, task) => withoutContext(() => clock.after(ms, task)),
    interval: (ms) => new Observable((out) => withoutContext(() => clock.interval(ms).subscribe(out))),
  };
}

const lastOf = new WeakMap<Clock, number>();

/**
 * The time of day in µs, larger with each call for the same clock. The digits below a millisecond are random if the clock is not the
 * machine's, or if somebody has set the machine's time of day.
 */
export function nextMicros(clock: Clock, chance: Chance): number {
  const ms = timeOfDay(clock);
  const within = Math.floor((performance.timeOrigin + clock.now() - ms) * 1000);
  const isOfMachine = within >= 0 && within < 1000;
  const micros = ms * 1000 + (isOfMachine ? within : Math.floor(chance.random() * 1000));
  const next = Math.max(micros, (lastOf.get(clock) ?? 0) + 1);
  lastOf.set(clock, next);
  return next;
}

/**
 * Settles as `work` does, unless it takes longer than `ms`: then resolves with `'late'`, while `work` goes on. A reply that has arrived in
 * time counts even if it is read only later, as in `giveUpAfter`.
 */
export async function within<T>(clock: Clock, ms: number, work: Promise<T>): Promise<T | 'late'> {
  let cancel = (): void => undefined;
  const over = new Promise<'late'>((resolve) => (cancel = giveUpAfter(clock, ms, () => resolve('late'))));
  return Promise.race([work, over]).finally(() => cancel());
}

/** Timers that can all be ended at once, so that none of them outlives a shutdown. Each resolves a promise. */
export class Delays {
  private readonly wakers = new Set<() => void>();

  constructor(private readonly clock: Clock) {}

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        cancel();
        this.wakers.delete(wake);
        resolve();
      };
      const cancel = this.clock.after(ms, wake);
      this.wakers.add(wake);
    });
  }

  endAll(): void {
    for (const wake of this.wakers) wake();
  }
}

/** Runs `task` in the next turn of the event loop, as the clock defines it. */
export function nextTurn(clock: Clock, task: () => void): void {
  if (clock.nextTurn) clock.nextTurn(task);
  else setImmediate(task);
}

/**
 * Sets the deadline of a reply: runs `task` after `ms`, but only after the replies that have arrived by then were read. After a long
 * turn of the event loop, timers run before sockets are read, so a plain timer would take an unread reply for silence.
 *
 * @param task gets the time at which `ms` was over. It may run later, after a long turn.
 * @returns a function that cancels it
 */
export function giveUpAfter(clock: Clock, ms: number, task: (overAt: number) => void): () => void {
  let isCancelled = false;
  const cancel = clock.after(ms, () => {
    const overAt = clock.now();
    nextTurn(clock, () => {
      if (!isCancelled) task(overAt);
    });
  });
  return () => {
    isCancelled = true;
    cancel();
  };
}

/** The only source of random numbers and ids in the library, so that a simulation can repeat a run exactly. */
export interface Chance {
  /** A number of at least 0 and less than 1. */
  random(): number;
  /** A UUID of version 4. */
  uuid(): string;
  /** This many random bytes as hexadecimal digits. */
  hex(bytes: number): string;
}

/** The machine's random numbers, which services use by default. */
export const systemChance: Chance = {
  random: () => Math.random(),
  uuid: () => randomUUID(),
  hex: (bytes) => randomBytes(bytes).toString('hex'),
};

/** A random time from `least` to `least + spread`, in ms. */
export function randomMs(
  chance: Chance,
  { least, spread }: { readonly least: number; readonly spread: number },
): number {
  return least + chance.random() * spread;
}
