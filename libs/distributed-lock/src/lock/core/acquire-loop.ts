import { type ClockReading, randomMs, readClocks } from '../../common/clock.js';
import { isExclusive } from '../../port/lock-store.js';
import type { AcquireReply, AcquireRequest, Busy, Queued } from '../../port/lock-store.js';
import { type LockError, LockStoreError } from '../../port/lock.errors.js';
import type { Replies } from './guarded-store.js';
import type { LocalQueue } from './local-queue.js';
import type { LockRuntime } from './lock-runtime.js';
import type { Owner } from './owner.js';

/**
 * How many fencing tokens an owner reserves with its grant. Each local hand-off uses one without a request to the store, and the release
 * gives the rest back. With a tenth of them, a busy owner would use them up in about a millisecond and have to ask the store again.
 *
 * Readers reserve fewer: the store takes unused tokens back only if it has given out no later ones. While several owners hold the lock, it
 * usually has, so most would be wasted.
 *
 * A process that crashes gives no tokens back. Tokens are based on the store's clock in µs, so those of the key then run ahead of it by up
 * to 10 ms. If the store loses its data in this time, tokens could repeat (docs/decisions/0004).
 */
export const RESERVED_TOKENS = { handOffs: 10_000, readers: 100 };
/** Delay before the next request after `busy`, or after a `queued` that leaves callers without an answer because they joined too late for it. */
const BUSY_RETRY_MS = 1;
const RETRY_MS = { least: 50, spread: 50 };
const NEVER: ClockReading = { now: -Infinity, wallClockOffset: 0 };

/**
 * Sends the acquire requests of one owner, one at a time, until the store grants the lock.
 *
 * 1. The first request names the owner id, the lease and whether any caller waits.
 * 2. If the store grants the lock, by reply or by notification, the owner stops the loop.
 * 3. If the store replies `queued`, the loop keeps the ticket and rechecks: it sends the request again with the same owner id and
 *    ticket. This makes up for a lost notification. A recheck is due when the holder's lease should have ended, at least every
 *    `RECHECK_MS`, and as soon as a subscription that was interrupted works again.
 * 4. If the store replies `busy`, the owner is not in the queue. Callers that need an answer now are refused. If others are left, the
 *    loop asks again.
 * 5. If the store cannot be reached or does not answer, the loop tries again soon. If it refuses the request, all callers are rejected.
 * 6. As soon as no caller waits, the owner gives up: it releases if the store may have it in its queue.
 *
 * Three subclasses ask in another way: `FairLoop`, `TakeoverLoop` and `AttachLoop`.
 */
export class AcquireLoop implements Replies<AcquireReply> {
  readonly queue: LocalQueue;
  protected readonly runtime: LockRuntime;
  isRunning = false;
  /** The owner's place in the store's queue, from the last reply; 0 until the store has put this owner into its queue. */
  ticket = 0;
  /** True after a request that got no reply: the store may execute it later and put this owner into its queue. */
  protected mayComeLate = false;
  /** Both clocks, read when the last request was sent. The validity of its grant counts from here. */
  asked: ClockReading = NEVER;
  private inFlight = false;
  /** The request in flight also asks how many other owners wait (`maxWaiting`). */
  private isCounting = false;
  private isNextDue = false;
  private cancelRecheck: (() => void) | undefined;
  /** When the recheck timer fires; `Infinity` if none is set. */
  private recheckAt = Infinity;

  constructor(readonly owner: Owner) {
    this.queue = owner.queue;
    this.runtime = owner.runtime;
  }

  /** Whether the store has given this loop a ticket, and not the lock yet. */
  get isQueued(): boolean {
    return this.isRunning && this.ticket !== 0;
  }

  /** Whether the store may have this owner in its queue: it gave a ticket, or may execute a request to which it has not replied. */
  get mayBeQueued(): boolean {
    return this.inFlight || this.mayComeLate || this.ticket !== 0;
  }

  start(at?: ClockReading): void {
    this.isRunning = true;
    this.ask(at);
  }

  stop(): void {
    if (!this.isRunning) return;
    this.isRunning = false;
    this.dropRecheck();
  }

  /** Schedules a recheck after `ms`. If an earlier one is scheduled, that one stays, because a caller may wait for it. */
  recheckAfter(ms: number): void {
    if (!this.isRunning) return;
    const { clock } = this.runtime;
    const now = clock.now();
    const at = Math.min(this.recheckAt, now + ms);
    if (at <= now) return this.ask();
    if (at === this.recheckAt) return;
    this.cancelRecheck?.();
    this.recheckAt = at;
    this.cancelRecheck = clock.after(ms, () => {
      this.recheckAt = Infinity;
      this.ask();
    });
  }

  askNow(): void {
    if (!this.inFlight) this.ask();
  }

  /** Sends an acquire request. If one is in flight, the next one follows as soon as its reply has arrived. */
  ask(at = readClocks(this.runtime.clock)): void {
    if (!this.isRunning) return;
    if (this.inFlight) {
      this.isNextDue = true;
      return;
    }
    this.dropRecheck();
    this.inFlight = true;
    const request = this.nextRequest(at);
    this.isCounting = request.maxWaiting !== undefined;
    this.send(request);
  }

  protected send(request: AcquireRequest): void {
    this.runtime.store.acquire(request, this);
  }

  /** @param at both clocks, read in this turn of the event loop. Validity counts from here, so the caller sends the request at once */
  private nextRequest(at: ClockReading): AcquireRequest {
    const { owner, queue, ticket } = this;
    const { key, id, terms } = owner;
    const { claim, leaseMs } = terms;
    this.asked = at;
    const tokens = this.tokensWanted();
    const { mayWait, maxWaiting } = queue;
    const request = { key, owner: id, claim, leaseMs, mayWait, ticket, tokens };
    return maxWaiting === undefined ? request : { ...request, maxWaiting };
  }

  private dropRecheck(): void {
    this.recheckAt = Infinity;
    this.cancelRecheck?.();
  }

  /**
   * A caller that asks alone reserves no tokens for others. If others join while it has the lock, its owner releases to the store, and the
   * next owner, which asks for several callers, reserves enough for local hand-offs.
   */
  private tokensWanted(): number {
    const { claim, watched, fair } = this.owner.terms;
    if (!watched || fair) return 1;
    if (!isExclusive(claim)) return RESERVED_TOKENS.readers;
    return this.queue.size > 1 ? RESERVED_TOKENS.handOffs : 1;
  }

  onReply(reply: AcquireReply): void {
    const at = readClocks(this.runtime.clock);
    const isNextDue = this.endRequest();
    if (reply.mayComeLate) this.mayComeLate = true;
    if (reply.kind === 'granted') this.owner.onGrant(reply, at);
    // If the loop no longer runs, a notification has overtaken this reply and granted the lock, so the refusal is out of date.
    else if (this.isRunning) this.onRefusal(reply);
    if (isNextDue) this.ask();
  }

  onFailure(error: LockError): void {
    const isNextDue = this.endRequest();
    if (this.isRunning) this.onError(error);
    if (isNextDue) this.ask();
  }

  /** @returns whether another request was wanted while this one was in flight */
  private endRequest(): boolean {
    const { isNextDue } = this;
    this.inFlight = this.isNextDue = false;
    return isNextDue;
  }

  protected onRefusal(reply: Queued | Busy): void {
    const { queue } = this;
    if (reply.kind === 'queued') this.ticket = reply.ticket;
    queue.onHolder(reply.holder, reply.remainingMs, this.asked.now);
    queue.refuseNeedingAnswerNow();
    if (this.isCounting) queue.onCounted(reply, this.asked.now);
    if (reply.kind === 'queued') queue.onQueued(this.othersAhead(reply));
    if (this.owner.endIfUnused()) return;
    if (reply.kind === 'busy' || queue.mustAskAgain) this.recheckAfter(BUSY_RETRY_MS);
    else this.waitFor(reply);
  }

  protected onError(error: LockError): void {
    if (!isTemporary(error)) this.queue.dismissAll(error);
    else {
      if (error.reason === 'unknown') this.mayComeLate = true;
      this.queue.onStoreError(error);
      this.queue.rejectNeedingAnswerNow(error);
    }
    if (!this.owner.endIfUnused()) this.retry();
  }

  /** Called when all callers of this owner wait: its ticket is in the store's queue, and `reply.holder` has the lock. */
  protected waitFor(reply: Queued): void {
    this.recheckAfter(reply.recheckAfterMs);
  }

  protected retry(): void {
    this.recheckAfter(randomMs(this.runtime.chance, RETRY_MS));
  }

  /** How many owners wait ahead of this one; `undefined` if the reply does not tell it. */
  protected othersAhead({ waiting }: Queued): number | undefined {
    return waiting;
  }
}

/** Whether the store may answer the next request, because it could not be reached or did not answer this one. */
export function isTemporary(error: LockError): error is LockStoreError {
  return error instanceof LockStoreError && error.reason !== 'refused';
}
