import type { Clock } from '../../common/clock.js';
import { Linked, LinkedQueue } from '../../common/collections.js';
import type { LockRequest } from '../request/lock-request.js';
import type { HeldLock } from './held-lock.js';
import type { Hold } from './hold.js';

/** While the timer runs, it fires at least this often. Most new deadlines are later than that, so they need not set the timer again. */
const MAX_TIMER_MS = 250;

abstract class HasDeadlines extends Linked {
  /** Handles the deadlines up to `now`. @returns the next deadline; `Infinity` if there is none */
  abstract onDeadline(now: number): number;
}

/**
 * One timer shared by all waiters of a service. Most waiters are served before their deadline, so a timer for each would be armed and
 * cancelled for nothing (`npm run bench -- --only serial`).
 */
export class DeadlineTimer {
  private readonly entries = new LinkedQueue<HasDeadlines>();
  private firesAt = Infinity;
  private cancel: (() => void) | undefined;

  constructor(private readonly clock: Clock) {}

  arm(entry: HasDeadlines, at: number): void {
    this.entries.push(entry);
    if (at < this.firesAt) this.set(at);
  }

  disarm(entry: HasDeadlines): void {
    this.entries.remove(entry);
  }

  stop(): void {
    this.cancel?.();
  }

  private set(at: number): void {
    this.cancel?.();
    const now = this.clock.now();
    this.firesAt = Math.min(at, now + MAX_TIMER_MS);
    this.cancel = this.clock.after(this.firesAt - now, () => this.fire());
  }

  private fire(): void {
    this.firesAt = Infinity;
    const now = this.clock.now();
    let next = Infinity;
    for (const entry of this.entries) next = Math.min(next, entry.onDeadline(now));
    // `onDeadline` may have armed the timer for a nearer deadline. Then leave it.
    if (next < this.firesAt) this.set(next);
  }
}

/** A list of deadlines is rebuilt without the waiters that have left as soon as it is longer than this plus twice the number of waiters. */
const MIN_REBUILD = 64;

/** The deadlines of the callers of one local queue, sorted. A waiter that leaves stays in the list and is skipped when its turn comes. */
export class WaitDeadlines extends HasDeadlines {
  private sorted: Call[] = [];

  constructor(
    private readonly timer: DeadlineTimer,
    private readonly waiting: { readonly size: number; has(call: Call): boolean },
    private readonly onOver: (call: Call) => void,
  ) {
    super();
  }

  watch(call: Call): void {
    const { deadline } = call;
    if (deadline === Infinity) return;
    if (this.sorted.length > MIN_REBUILD + 2 * this.waiting.size)
      this.sorted = this.sorted.filter((other) => this.waiting.has(other));
    this.insert(call, deadline);
    this.timer.arm(this, deadline);
  }

  stop(): void {
    this.timer.disarm(this);
  }

  onDeadline(now: number): number {
    const next = this.sorted.findIndex((waiter) => this.waiting.has(waiter) && waiter.deadline > now);
    const over = this.sorted.splice(0, next < 0 ? this.sorted.length : next);
    for (const waiter of over) if (this.waiting.has(waiter)) this.onOver(waiter);
    return this.sorted[0]?.deadline ?? Infinity;
  }

  private insert(call: Call, deadline: number): void {
    const last = this.sorted.at(-1);
    // Mostly one caller waits for a key. A list literal of one entry takes less memory than an empty list after `push`, which reserves room
    // for many.
    if (!last) this.sorted = [call];
    // Callers mostly have the same `waitMs`, so a new deadline is mostly the last one.
    else if (last.deadline <= deadline) this.sorted.push(call);
    else this.sorted.splice(this.firstAfter(deadline), 0, call);
  }

  private firstAfter(deadline: number): number {
    let [low, high] = [0, this.sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.sorted[middle] as Call).deadline <= deadline) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** A call that waits in the local queue, until it is admitted or leaves. There may be very many of them, so it has few fields. */
export class Call extends Linked {
  stopListening: (() => void) | undefined;

  constructor(
    readonly number: number,
    readonly request: LockRequest,
    readonly waitingSince: number,
    /** The holds of the caller's async flow at the time of the call. */
    private readonly holdsOfFlow: readonly Hold[],
    readonly resolve: (lock: HeldLock) => void,
    readonly reject: (error: unknown) => void,
  ) {
    super();
  }

  /** Whether the caller's async flow holds a lock. If so, the call may go on while the service closes, so that the work can end. */
  get isAtWork(): boolean {
    return this.holdsOfFlow.some((hold) => hold.isLive());
  }

  get deadline(): number {
    return this.waitingSince + this.request.terms.waitMs;
  }
}
