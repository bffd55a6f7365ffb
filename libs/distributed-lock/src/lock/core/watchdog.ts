import { exhaustMap, type Subscription } from 'rxjs';
import { LinkedQueue } from '../../common/collections.js';
import { LockStoreError } from '../../port/lock.errors.js';
import { ignoreFailure } from '../../common/promises.js';
import type { Lease } from './lease.js';
import type { LockRuntime } from './lock-runtime.js';
import type { Renewal, RenewalReply } from '../../port/lock-store.js';

/** The shortest and the longest time between two rounds of the watchdog. */
export const ROUND_MS = { min: 10, max: 1000 };
/** After a gap in the notifications, leases are renewed in batches of this many, so that they do not flood the store. */
export const CHECKED_TOGETHER = 500;

/**
 * Keeps leases alive while their holders work.
 *
 * One RxJS interval serves all leases of a service. Each round renews those that are due in one batch, and rounds never overlap. A
 * lease is due after a third of the time that the last reply left it, so two renewals in a row may fail before it is in danger. The
 * interval stops with the first round that finds no lease.
 */
export class Watchdog {
  private readonly watched = new LinkedQueue<Lease>();
  /** Leases that must be renewed because of a gap in the notifications. */
  private readonly unchecked = new Set<Lease>();
  private isChecking = false;
  private rounds: Subscription | undefined;
  private readonly roundMs: number;

  constructor(private readonly runtime: LockRuntime) {
    const { watchdogTimeoutMs } = runtime;
    this.roundMs = Math.min(Math.max(watchdogTimeoutMs / 30, ROUND_MS.min), ROUND_MS.max);
  }

  watch(lease: Lease): void {
    this.watched.push(lease);
    this.rounds ??= this.runtime.clock
      .interval(this.roundMs)
      .pipe(exhaustMap(() => this.round()))
      .subscribe();
  }

  unwatch(lease: Lease): void {
    this.watched.remove(lease);
    this.unchecked.delete(lease);
  }

  /**
   * Renews all watched leases now, because their holders may have missed a notification: the reply says whether they still hold. Sends
   * `CHECKED_TOGETHER` at a time, and the next batch after the replies. Fixed leases are not watched, and must not be: a renewal for
   * the rest of one could be executed after an `extend`, and would shorten it.
   */
  check(): void {
    for (const lease of this.watched) this.unchecked.add(lease);
    if (!this.isChecking) ignoreFailure(this.checkAll());
  }

  stop(): void {
    this.unchecked.clear();
    this.stopRounds();
  }

  /**
   * Renews leases in one batch: those of a round, or one that cannot wait for the next round. Never rejects, because a rejected round would
   * end all rounds.
   *
   * @param leaseMs another length of the lease
   */
  async renew(leases: readonly Lease[], leaseMs?: number): Promise<readonly RenewalReply[]> {
    const started = leases.map((lease) => lease.startRenewal(leaseMs));
    const replies = await this.send(started.map(({ renewal }) => renewal));
    started.forEach(({ onReply }, i) => onReply(replies[i] as RenewalReply));
    return replies;
  }

  private async send(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]> {
    try {
      const replies = await this.runtime.store.renew(renewals);
      if (replies.length === renewals.length) return replies;
      throw new Error(`The store answered ${replies.length} of ${renewals.length} renewals.`);
    } catch (cause) {
      this.runtime.emit({ type: 'error', key: undefined, during: 'renewal', error: cause });
      return renewals.map(({ key }) => {
        return { kind: 'unknown', error: new LockStoreError(String(cause), key, 'unknown', { cause }) };
      });
    }
  }

  private stopRounds(): void {
    this.rounds?.unsubscribe();
    this.rounds = undefined;
  }

  private async round(): Promise<void> {
    if (this.watched.size === 0) return this.stopRounds();
    const due = [...this.watched].filter((lease) => lease.isRenewalDue());
    if (due.length > 0) await this.renew(due);
  }

  private async checkAll(): Promise<void> {
    this.isChecking = true;
    while (this.unchecked.size > 0) {
      const part: Lease[] = [];
      for (const lease of this.unchecked) {
        part.push(lease);
        // Remove the lease before its renewal is sent: a gap while that is in flight adds the lease again.
        this.unchecked.delete(lease);
        if (part.length === CHECKED_TOGETHER) break;
      }
      await this.renew(part);
    }
    this.isChecking = false;
  }
}
