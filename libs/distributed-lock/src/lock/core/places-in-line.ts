import { SmallSet } from '../../common/collections.js';
import { inBackground } from '../../common/promises.js';
import type { Busy, Queued } from '../../port/lock-store.js';
import { kindName, type Terms } from '../request/lock-request.js';
import type { Call } from './call.js';
import type { LocalQueue } from './local-queue.js';
import type { LockRuntime } from './lock-runtime.js';

/**
 * Counts for the options `maxWaiting` and `onQueued` how many wait ahead of a caller: callers in its local queue, and owners of other
 * processes in the store's queue. A local queue has this object only if one of its callers has one of these options.
 */
export class PlacesInLine {
  /**
   * Callers with `maxWaiting` that do not know yet how many wait ahead of them. As soon as they know, they are refused, or they wait
   * and are never refused for this reason again.
   */
  private readonly unchecked = new SmallSet<Call>();
  /** Callers with `onQueued` that do not know their place yet. */
  private readonly untold = new SmallSet<Call>();
  /** How many other owners wait in the store's queue, by the last reply that told it; 0 since this process had the lock. */
  private othersAhead = 0;
  private isInspecting = false;

  constructor(
    private readonly queue: LocalQueue,
    private readonly runtime: LockRuntime,
  ) {}

  /**
   * A lower bound of how many wait ahead of a call that joins now, for `maxWaiting`; `undefined` if the store must be asked first, because
   * it may grant the lock at once.
   */
  aheadOf({ fair }: Terms): number | undefined {
    const { queue, runtime } = this;
    if (fair) return runtime.fairQueues.get(kindName(queue.key, queue.terms))?.size;
    return queue.canRefuseLocally ? queue.patientSize : undefined;
  }

  add(call: Call): void {
    if (call.request.terms.maxWaiting < Infinity) this.unchecked.add(call);
    if (call.place) this.untold.add(call);
  }

  remove(call: Call): void {
    this.unchecked.delete(call);
    this.untold.delete(call);
  }

  /** `maxWaiting` of the next request; `undefined` if it need not count. A greater limit than a caller's own is checked with the reply. */
  get maxWaiting(): number | undefined {
    const { unchecked, untold, queue } = this;
    if (unchecked.size === 0) return untold.size > 0 ? Infinity : undefined;
    if (unchecked.size < queue.patientSize) return Infinity;
    let most = 0;
    for (const { request } of unchecked) most = Math.max(most, request.terms.maxWaiting);
    return most;
  }

  get mustCount(): boolean {
    return this.unchecked.size > 0;
  }

  /** Refuses the callers whose `maxWaiting` is reached, by a reply that counts the owners in the store's queue. */
  onCounted({ kind, waiting = 0 }: Pick<Queued | Busy, 'kind' | 'waiting'>, askedAt: number): void {
    if (!this.mustCount) return;
    let ahead = waiting;
    for (const call of this.queue.patientCalls()) {
      const isDue = this.unchecked.has(call) && call.waitingSince <= askedAt;
      if (isDue && ahead >= call.request.terms.maxWaiting) {
        this.queue.refuse(call, ahead);
        continue;
      }
      if (isDue && kind === 'queued') this.unchecked.delete(call);
      ahead += 1;
    }
  }

  /**
   * Finds out how many other owners wait, for callers with `maxWaiting`: with the next request of the owner that asks for the lock, or by
   * `inspect` if an owner has the lock and none asks.
   */
  count(): void {
    if (!this.mustCount || this.isInspecting) return;
    const { queue, runtime } = this;
    const { holdingOwner, waitingOwner } = queue;
    if (waitingOwner) return waitingOwner.askNow();
    const askedAt = runtime.clock.now();
    if (!holdingOwner?.contention.hasWaitingOwners) return this.onCounted({ kind: 'queued' }, askedAt);
    this.isInspecting = true;
    const counted = runtime.store.inspect(queue.key).then((snapshot) => {
      this.isInspecting = false;
      const waiting = snapshot?.pending.length ?? 0;
      if (queue.holdingOwner === holdingOwner) {
        this.onCounted({ kind: 'queued', waiting }, askedAt);
        this.tellAll();
      }
      queue.endUnusedOwners();
      this.count();
    });
    inBackground(counted, () => (this.isInspecting = false));
  }

  /** Called when the store has put an owner of the local queue into its own. @param others how many owners wait there, if the reply tells it */
  onQueued(others = this.othersAhead): void {
    this.othersAhead = others;
    this.tellAll();
  }

  onGrant(): void {
    this.othersAhead = 0;
  }

  /** Calls the `onQueued` of all callers that do not know their place yet. */
  tellAll(): void {
    if (this.untold.size === 0) return;
    let position = this.othersAhead;
    for (const call of this.queue.patientCalls()) this.tell(call, (position += 1));
  }

  /** Calls the `onQueued` of the caller that has joined last. */
  tellLast(call: Call): void {
    this.tell(call, this.othersAhead + this.queue.patientSize);
  }

  /** Does nothing for a caller that may still be refused because of `maxWaiting`. */
  private tell(call: Call, position: number): void {
    const { place } = call;
    if (!place || this.unchecked.has(call) || !this.untold.delete(call)) return;
    place.position = position;
    this.runtime.events.tell(() => place.tell(position));
  }
}
