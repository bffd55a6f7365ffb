import { Sleeper, type Alarm } from './alarm.js';
import type { Waiter } from './waiter.js';

/**
 * The deadlines of all that wait in a line.
 *
 * Callers mostly wait equally long, so their deadlines come in the order of asking, and only the first ones are looked
 * at; where they don't, all are.
 */
export class Deadlines extends Sleeper {
  private latest = -Infinity;
  private areSorted = true;

  constructor(
    private readonly alarm: Alarm,
    /** In the order of asking. */
    private readonly waiters: Iterable<Waiter>,
    private readonly onOver: (waiter: Waiter) => void,
  ) {
    super();
  }

  watch({ request, deadline }: Waiter): void {
    // A caller that does not wait is answered by the store's reply, which has a deadline of its own.
    if (request.waitMs === 0) return;
    this.areSorted &&= deadline >= this.latest;
    this.latest = Math.max(this.latest, deadline);
    this.alarm.wake(this, deadline);
  }

  /** Nobody waits any more. */
  stop(): void {
    this.alarm.forget(this);
  }

  onAlarm(now: number): number {
    let next = Infinity;
    for (const waiter of this.waiters) {
      if (waiter.request.waitMs === 0) continue;
      if (waiter.deadline <= now) this.onOver(waiter);
      else {
        next = Math.min(next, waiter.deadline);
        if (this.areSorted) break;
      }
    }
    return next;
  }
}
