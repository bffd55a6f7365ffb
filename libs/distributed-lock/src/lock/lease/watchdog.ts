import { exhaustMap, type Subscription } from 'rxjs';
import type { Clock } from '../../time/clock.js';
import { LinkedQueue, type Link } from '../../collections/linked-queue.js';
import type { Owned } from '../../async/in-background.js';
import type { LockEvent } from '../events/lock.events.js';
import type { LockStore, Renewal, RenewalReply } from '../../port/lock-store.js';

export const FASTEST_ROUND_MS = 10;
export const SLOWEST_ROUND_MS = 1000;

/** A lease that the watchdog renews. */
export interface Renewable extends Link {
  isRenewalDue(now: number): boolean;
  /** Starts a renewal: the reply to it follows by `onRenewal`. */
  renewal(): Renewal;
  onRenewal(reply: RenewalReply): void;
}

/**
 * Keeps leases alive while their holders work.
 *
 * One RxJS interval for all of them: each round renews what is due in one batch, and rounds never overlap. A lease is
 * due after a third of its length, so two renewals in a row may fail before it is in danger. It runs only while
 * something is watched: the first round that finds nothing stops it.
 */
export class Watchdog {
  private readonly watched = new LinkedQueue<Renewable>();
  private rounds: Subscription | undefined;
  private readonly roundMs: number;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    watchdogTimeoutMs: number,
    private readonly emit: (event: LockEvent) => void,
  ) {
    this.roundMs = Math.min(Math.max(watchdogTimeoutMs / 30, FASTEST_ROUND_MS), SLOWEST_ROUND_MS);
  }

  watch(keeper: Renewable): void {
    this.watched.push(keeper);
    this.rounds ??= this.clock
      .interval(this.roundMs)
      .pipe(exhaustMap(() => this.round()))
      .subscribe();
  }

  unwatch(keeper: Renewable): void {
    this.watched.remove(keeper);
  }

  /** Renews these leases now, whether due or not; the outcome goes to their keepers. */
  renew(keepers: readonly Renewable[]): Owned<void> {
    const failed = (error: unknown) => this.emit({ type: 'error', key: undefined, during: 'renewal', error });
    return this.renewAll(keepers).catch(failed) as Owned<void>;
  }

  private async renewAll(keepers: readonly Renewable[]): Promise<void> {
    const replies = await this.store.renew(keepers.map((keeper) => keeper.renewal()));
    keepers.forEach((keeper, i) => keeper.onRenewal(replies[i] as RenewalReply));
  }

  stop(): void {
    this.rounds?.unsubscribe();
    this.rounds = undefined;
  }

  private async round(): Promise<void> {
    if (this.watched.size === 0) return this.stop();
    // The clock finds out here that the machine has slept. Only then does `now` count that sleep.
    this.clock.timeOfDay?.();
    const now = this.clock.now();
    const due = [...this.watched].filter((keeper) => keeper.isRenewalDue(now));
    if (due.length > 0) await this.renew(due);
  }
}
