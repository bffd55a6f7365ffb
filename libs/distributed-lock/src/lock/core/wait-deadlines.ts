import { HasDeadlines, type DeadlineTimer } from '../../time/deadline-timer.js';
import type { Call } from './call.js';

/** The list drops waiters that have left once it is longer than this plus twice the number of waiters. */
const MIN_REBUILD = 64;

/** The deadlines of the callers of one local queue, sorted. A waiter that has left is skipped when its turn comes. */
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
    // A list of one, because a list that grows reserves room for many, and mostly one caller waits for a key.
    if (!last) this.sorted = [call];
    // Callers mostly wait for the same time, so that each new deadline is the last one.
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
