import type { Clock } from './clock.js';
import { Fifo, Link } from './fifo.js';

/** It rings at least this often while somebody sleeps, and once more when nobody does. */
const LONGEST_REST_MS = 250;

export abstract class Sleeper extends Link {
  /** @returns when it wants to be woken next; `Infinity` for never */
  abstract onAlarm(now: number): number;
}

/**
 * One timer for all of a service that wait for a moment which hardly ever comes.
 *
 * Most callers are served long before their deadline: a timer for each of them would be set and stopped for nothing, which
 * shows in a process that takes one lock after the other (`npm run bench -- --only serial`). This one rings in vain.
 */
export class Alarm {
  private readonly sleepers = new Fifo<Sleeper>();
  private ringsAt = Infinity;
  private cancel: (() => void) | undefined;

  constructor(private readonly clock: Clock) {}

  wake(sleeper: Sleeper, at: number): void {
    this.sleepers.push(sleeper);
    if (at < this.ringsAt) this.set(at);
  }

  forget(sleeper: Sleeper): void {
    this.sleepers.remove(sleeper);
  }

  stop(): void {
    this.cancel?.();
  }

  private set(at: number): void {
    this.cancel?.();
    const now = this.clock.now();
    this.ringsAt = Math.min(at, now + LONGEST_REST_MS);
    this.cancel = this.clock.after(this.ringsAt - now, () => this.ring());
  }

  private ring(): void {
    this.ringsAt = Infinity;
    const now = this.clock.now();
    let next = Infinity;
    for (const sleeper of this.sleepers) next = Math.min(next, sleeper.onAlarm(now));
    // Somebody who was woken may have set it.
    if (next < this.ringsAt) this.set(next);
  }
}
