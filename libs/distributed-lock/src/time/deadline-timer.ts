import type { Clock } from './clock.js';
import { LinkedQueue, Link } from '../collections/linked-queue.js';

/** It rings at least this often while somebody sleeps, and once more when nobody does. */
const LONGEST_TIMER_MS = 250;

export abstract class HasDeadlines extends Link {
  /** @returns when it wants to be woken next; `Infinity` for never */
  abstract onDeadline(now: number): number;
}

/**
 * One timer for all of a service that wait for a moment which hardly ever comes.
 *
 * Most callers are served long before their deadline: a timer for each of them would be set and stopped for nothing, which
 * shows in a process that takes one lock after the other (`npm run bench -- --only serial`). This one rings in vain.
 */
export class DeadlineTimer {
  private readonly entries = new LinkedQueue<HasDeadlines>();
  private firesAt = Infinity;
  private cancel: (() => void) | undefined;

  constructor(private readonly clock: Clock) {}

  arm(sleeper: HasDeadlines, at: number): void {
    this.entries.push(sleeper);
    if (at < this.firesAt) this.set(at);
  }

  disarm(sleeper: HasDeadlines): void {
    this.entries.remove(sleeper);
  }

  stop(): void {
    this.cancel?.();
  }

  private set(at: number): void {
    this.cancel?.();
    const now = this.clock.now();
    this.firesAt = Math.min(at, now + LONGEST_TIMER_MS);
    this.cancel = this.clock.after(this.firesAt - now, () => this.fire());
  }

  private fire(): void {
    this.firesAt = Infinity;
    const now = this.clock.now();
    let next = Infinity;
    for (const sleeper of this.entries) next = Math.min(next, sleeper.onDeadline(now));
    // Somebody who was woken may have set it.
    if (next < this.firesAt) this.set(next);
  }
}
