import { randomBytes, randomUUID } from 'node:crypto';
import { uptime as uptimeInSeconds } from 'node:os';
import { interval, type Observable } from 'rxjs';
import type { NeverRejects } from './promises.js';

/**
 * The only source of time in the library, so that tests can use a manual clock.
 *
 * `now()` is monotonic: it never goes back, and setting the machine's clock does not move it. The clock of the machine counts
 * the time for which the machine was suspended.
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
  /** Runs `task` once after `ms`, which may be negative: then soon. The returned function cancels it. */
  after(ms: number, task: () => void): () => void;
  /** Emits every `ms` until unsubscribed. */
  interval(ms: number): Observable<unknown>;
  /**
   * Runs `task` in the next turn of the event loop, once what has arrived by now is read. Without this method the library
   * uses `setImmediate`.
   */
  nextTurn?(task: () => void): void;
}

/** Milliseconds since 1970, which other processes have too. */
export function timeOfDay(clock: Clock): number {
  return clock.timeOfDay?.() ?? Date.now();
}

/** One moment by both clocks. All work of one turn for one lock shares it, because a reading takes as long as a hand-off. */
export class ClockReading {
  constructor(
    /** The monotonic time in ms. */
    readonly now: number,
    /** How far the time of day is ahead of it. Grows while the machine is suspended, and when its clock is set forward. */
    readonly wallClockOffset: number,
  ) {}
}

/** How a clock that stands for another one reads it. A symbol, because a clock of an application may have any method. */
export const READ = Symbol('read');

export function readClocks(clock: Clock & { readonly [READ]?: () => ClockReading }): ClockReading {
  if (clock[READ]) return clock[READ]();
  if (clock === systemClock) return machine.read();
  // Read first: a suspend between the two readings must not look like a part of the offset.
  const timeOfDay = clock.timeOfDay?.();
  const now = clock.now();
  return new ClockReading(now, timeOfDay === undefined ? 0 : timeOfDay - now);
}

/** The times of a machine, in ms. */
interface TimeSources {
  readonly monotonic: () => number;
  readonly timeOfDay: () => number;
  /** Time since the start of the machine, suspends included. Need not be exact. */
  readonly uptime: () => number;
}

/** A shorter difference is no suspend. It comes from a clock that is adjusted, or from an uptime in steps of 10 ms, as on Linux. */
const MIN_SLEEP_MS = 100;
/** The least length of a suspend if the uptime counts in seconds, as on Linux without `/proc`. */
const MIN_COARSE_SLEEP_MS = 1000;
/** How often the uptime is read, in case the clock was set back by as much as the machine has slept. */
const CHECK_MS = 1000;

/**
 * A monotonic clock that counts the time for which the machine was suspended, which Node's does not on Linux.
 *
 * The first reading after a suspend counts it. Otherwise a later reading would count it, the time between the two would seem
 * too long, and a lease of another process would look expired.
 */
export function awakeClock(sources: TimeSources): AwakeClock {
  const { monotonic, timeOfDay, uptime } = sources;
  const startedAt = uptime();
  const awakeUntilNow = startedAt - monotonic();
  // A fine uptime shows whole seconds by chance, too.
  let isCoarse = startedAt % 1000 === 0;
  let sleptMs = 0;
  let checkedAt = -Infinity;
  let checkedOffset = 0;
  const countSleep = (): void => {
    // The monotonic clock is read last: a stall between the two readings must not pass for a suspend. The next check counts what
    // it hides.
    const up = uptime();
    const slept = up - monotonic() - awakeUntilNow;
    isCoarse &&= up % 1000 === 0;
    if (slept - sleptMs > (isCoarse ? MIN_COARSE_SLEEP_MS : MIN_SLEEP_MS)) sleptMs = slept;
  };
  const countFrom = (time: number, at: number): number => {
    const offset = time - at;
    // A suspend moves the offset between the clocks, unless somebody sets the clock back by as much. The uptime takes a system call.
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
  /** As `readClocks`. A hand-off among the callers of a process takes hardly longer than to read the clocks twice. */
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

/** Node refuses longer delays and would fire at once. */
const MAX_MS = 2 ** 31 - 1;

/** The delay that `setTimeout` takes for a time that may be over already, or too far away. From Node 24 on it warns of a negative one. */
export function timerDelay(ms: number): number {
  return Math.min(Math.max(0, ms), MAX_MS);
}

const lastOf = new WeakMap<Clock, number>();

/**
 * The time of day in µs, larger with each call for one clock. The µs within the ms are random if the clock is not the
 * machine's, or if the machine's time of day was set.
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

/** Settles as `work` does, or resolves with `late` as soon as `giveUpAfter` does after `ms`, while `work` goes on. */
export async function within<T, Late>(
  clock: Clock,
  ms: number,
  work: Promise<T>,
  late: Late,
): Promise<T | Late> {
  let cancel = (): void => undefined;
  const over = new Promise<Late>((resolve) => (cancel = giveUpAfter(clock, ms, () => resolve(late))));
  return Promise.race([work, over]).finally(() => cancel());
}

/** Waits that `endAll` ends at once, so that none outlives a shutdown. */
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

/** Runs `task` in the next turn of the event loop: that of the clock if it has one of its own. */
export function nextTurn(clock: Clock, task: () => void): void {
  if (clock.nextTurn) clock.nextTurn(task);
  else setImmediate(task);
}

/**
 * The deadline of a reply: runs `task` after `ms`, once the replies that have arrived by then are read. After a long turn of the event loop timers
 * run first, and would take an unread reply for silence.
 *
 * @param task gets the time at which `ms` was over; a long turn may come between that and its run
 * @returns cancels it
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

/** Resolves when the replies that have arrived by now are read. A long turn of the event loop leaves them in the socket. */
export function arrivedReplies(clock: Clock): NeverRejects<void> {
  const turn = (): Promise<void> => new Promise((resolve) => nextTurn(clock, resolve));
  // The first turn may end without looking at the sockets again.
  return turn().then(turn) as NeverRejects<void>;
}

/** The only source of random numbers and ids in the library, so that a simulation can run a history again. */
export interface Chance {
  /** A number of at least 0 and less than 1. */
  random(): number;
  /** A UUID of version 4. */
  uuid(): string;
  /** This many random bytes as hexadecimal digits. */
  hex(bytes: number): string;
}

/** Used by services by default. */
export const systemChance: Chance = {
  random: () => Math.random(),
  uuid: () => randomUUID(),
  hex: (bytes) => randomBytes(bytes).toString('hex'),
};

/** A time between `least` and `least + spread`, in ms. */
export function randomMs(
  chance: Chance,
  { least, spread }: { readonly least: number; readonly spread: number },
): number {
  return least + chance.random() * spread;
}
