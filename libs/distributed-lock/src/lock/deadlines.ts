import type { Clock } from './clock.js';
import type { Waiter } from './waiter.js';

/**
 * One timer for the deadlines of all that wait in a line.
 *
 * Callers mostly wait equally long, so their deadlines come in the order of asking, and only the first ones are looked
 * at; where they don't, all are.
 */
export class Deadlines {
  private dueAt = Infinity;
  private latest = -Infinity;
  private areSorted = true;
  private cancel: (() => void) | undefined;

  constructor(
    private readonly clock: Clock,
    /** In the order of asking. */
    private readonly waiters: Iterable<Waiter>,
    private readonly onOver: (waiter: Waiter) => void,
  ) {}

  watch({ request, deadline }: Waiter): void {
    // A caller that does not wait is answered by the store's reply, which has a deadline of its own.
    if (request.waitMs === 0) return;
    this.areSorted &&= deadline >= this.latest;
    this.latest = Math.max(this.latest, deadline);
    if (deadline < this.dueAt) this.arm(deadline);
  }

  /** Nobody waits any more. */
  stop(): void {
    this.cancel?.();
  }

  private arm(dueAt: number): void {
    this.cancel?.();
    this.dueAt = dueAt;
    this.cancel = this.clock.after(dueAt - this.clock.now(), () => this.onDue());
  }

  private onDue(): void {
    this.dueAt = Infinity;
    const now = this.clock.now();
    let next = Infinity;
    for (const waiter of this.waiters) {
      if (waiter.request.waitMs === 0) continue;
      if (waiter.deadline <= now) this.onOver(waiter);
      else {
        next = Math.min(next, waiter.deadline);
        if (this.areSorted) break;
      }
    }
    if (next < Infinity) this.arm(next);
  }
}
