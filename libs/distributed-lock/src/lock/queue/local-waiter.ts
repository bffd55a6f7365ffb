import { Linked } from '../../collections/linked-queue.js';
import { HasDeadlines, type DeadlineTimer } from '../../time/deadline-timer.js';
import type { HeldLock } from '../context/held-lock.js';
import type { Hold } from '../context/hold.js';
import type { LockRequest } from '../request/lock-request.js';

/** One caller in the local queue, until it is admitted or leaves. There may be very many, so it is kept small. */
export class LocalWaiter extends Linked {
  stopListening: (() => void) | undefined;

  constructor(
    readonly request: LockRequest,
    readonly call: number,
    readonly waitingSince: number,
    readonly resolve: (lock: HeldLock) => void,
    readonly reject: (error: unknown) => void,
    private readonly holdsOfFlow: readonly Hold[],
  ) {
    super();
  }

  /** The async flow of the caller holds a lock. Its work may go on while the service closes. */
  get isAtWork(): boolean {
    return this.holdsOfFlow.some((hold) => hold.isLive());
  }

  get deadline(): number {
    return this.waitingSince + this.request.waitMs;
  }
}

/** The list drops waiters that have left once it is longer than this plus twice the number of waiters. */
const LEAST_REBUILD = 64;

/** The deadlines of the callers of one local queue, sorted. A waiter that has left is skipped when its turn comes. */
export class WaitDeadlines extends HasDeadlines {
  private sorted: LocalWaiter[] = [];
  /** The latest deadline so far, waiters that have left included. */
  latest = -Infinity;

  constructor(
    private readonly timer: DeadlineTimer,
    private readonly waiting: { readonly size: number; has(waiter: LocalWaiter): boolean },
    private readonly onOver: (waiter: LocalWaiter) => void,
  ) {
    super();
  }

  watch(waiter: LocalWaiter): void {
    const { deadline } = waiter;
    this.latest = Math.max(this.latest, deadline);
    if (deadline === Infinity) return;
    if (this.sorted.length > LEAST_REBUILD + 2 * this.waiting.size)
      this.sorted = this.sorted.filter((other) => this.waiting.has(other));
    this.insert(waiter, deadline);
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

  private insert(waiter: LocalWaiter, deadline: number): void {
    const last = this.sorted.at(-1);
    // A list of one, because a list that grows reserves room for many, and mostly one caller waits for a key.
    if (!last) this.sorted = [waiter];
    // Callers mostly wait for the same time, so that each new deadline is the last one.
    else if (last.deadline <= deadline) this.sorted.push(waiter);
    else this.sorted.splice(this.firstAfter(deadline), 0, waiter);
  }

  private firstAfter(deadline: number): number {
    let [low, high] = [0, this.sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.sorted[middle] as LocalWaiter).deadline <= deadline) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
