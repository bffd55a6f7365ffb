import type { Clock } from './clock.js';
import { LinkedQueue, Linked } from '../collections/linked-queue.js';

/** The longest delay of the timer, so that it need not be set again for each deadline. */
const MAX_TIMER_MS = 250;

export abstract class HasDeadlines extends Linked {
  /** @returns the next deadline; `Infinity` for none */
  abstract onDeadline(now: number): number;
}

/**
 * One timer shared by all waiters of a service. Most waiters are served before their deadline, so a timer for each would
 * be armed and cancelled for nothing (`npm run bench -- --only serial`).
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
    // An entry may have armed the timer again.
    if (next < this.firesAt) this.set(next);
  }
}
