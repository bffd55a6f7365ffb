import type { Clock } from '../../common/clock.js';
import { Linked } from '../../common/collections.js';
import type { LockRequest } from '../request/lock-request.js';
import type { HeldLock } from './held-lock.js';
import type { Hold } from './hold.js';
import type { LocalQueue } from './local-queue.js';

const NO_HOLDS: readonly Hold[] = [];

/** A call that waits in the local queue, until it is admitted or leaves. There may be very many of them, so it has few fields. */
export class Call extends Linked {
  /** Settles when the call is admitted or leaves. */
  readonly lock: Promise<HeldLock>;
  resolve: (lock: HeldLock) => void = ignore;
  reject: (error: unknown) => void = ignore;
  waitingSince = 0;
  /** The holds of the caller's async flow at the time of the call. */
  holdsOfFlow = NO_HOLDS;
  /** Whether `WaitDeadlines` still watches the deadline of this call. Only that class changes this field. */
  isWatched = false;
  stopListening: (() => void) | undefined;
  /** Only for a call with `onQueued`. */
  place: CallPlace | undefined;

  constructor(
    /** Not `queue`: that is the `LinkedQueue` of the superclass. */
    private readonly localQueue: Pick<LocalQueue, 'onLate'>,
    /** Identifies the call in events. */
    readonly number: number,
    readonly request: LockRequest,
  ) {
    super();
    this.lock = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  /** Whether the caller's async flow holds a lock. If so, the call may go on while the service closes, so that the work can end. */
  get isAtWork(): boolean {
    return this.holdsOfFlow.some((hold) => hold.isLive());
  }

  onLate(): void {
    this.localQueue.onLate(this);
  }

  get deadline(): number {
    return this.waitingSince + this.request.terms.waitMs;
  }
}

/** The place in line of a call with `onQueued`. */
interface CallPlace {
  /** Calls `onQueued` in the async context of the call. */
  readonly tell: (position: number) => unknown;
  /** The approximate place that `onQueued` got; `undefined` until the call begins to wait. */
  position: number | undefined;
}

function ignore(): void {
  // Replaced in the constructor of `Call`.
}

/** While the timer runs, it fires at least this often. Most new deadlines are later than that, so they need not set the timer again. */
const MAX_TIMER_MS = 250;
/** Calls that have left are removed as soon as the list of deadlines has this many entries more than twice the calls that still wait. */
const MIN_REBUILD = 64;

/**
 * The deadlines of all calls of a service, with one timer. Most calls are served before their deadline, so a timer for each would be armed
 * and cancelled for nothing (`npm run bench -- --only serial`).
 */
export class WaitDeadlines {
  /** Earliest deadline first. A call that has left stays here and is skipped when its deadline comes. */
  private sorted: Call[] = [];
  /** How many calls in the list are still watched. */
  private watched = 0;
  private firesAt = Infinity;
  private cancel: (() => void) | undefined;

  constructor(private readonly clock: Clock) {}

  watch(call: Call): void {
    const { deadline } = call;
    if (deadline === Infinity) return;
    if (this.sorted.length > MIN_REBUILD + 2 * this.watched)
      this.sorted = this.sorted.filter(({ isWatched }) => isWatched);
    const last = this.sorted.at(-1);
    // Callers mostly have the same `waitMs`, so a new deadline is mostly the last one.
    if (!last || last.deadline <= deadline) this.sorted.push(call);
    else this.sorted.splice(this.firstAfter(deadline), 0, call);
    this.watched += 1;
    call.isWatched = true;
    if (deadline < this.firesAt) this.set(deadline);
  }

  unwatch(call: Call): void {
    if (!call.isWatched) return;
    call.isWatched = false;
    this.watched -= 1;
    while (this.sorted.at(-1)?.isWatched === false) this.sorted.pop();
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
    const next = this.sorted.findIndex((call) => call.isWatched && call.deadline > now);
    const over = this.sorted.splice(0, next < 0 ? this.sorted.length : next);
    for (const call of over) {
      if (!call.isWatched) continue;
      this.unwatch(call);
      call.onLate();
    }
    // `onLate` may have set the timer for an earlier deadline. Keep that.
    const [first] = this.sorted;
    if (first && first.deadline < this.firesAt) this.set(first.deadline);
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
