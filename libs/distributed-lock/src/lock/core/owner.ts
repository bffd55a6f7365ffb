import { type ClockReading, readClocks } from '../../common/clock.js';
import { maxOf, SmallSet } from '../../common/collections.js';
import { type Claim, CONFIRM_FIRST, isExclusive, SHARED } from '../../port/lock-store.js';
import type { Grant, Notification, ReleaseRequest, TakeoverNotice } from '../../port/lock-store.js';
import { type LockLostError, LockStoreError } from '../../port/lock.errors.js';
import type { Terms } from '../request/lock-request.js';
import { AcquireLoop } from './acquire-loop.js';
import { AttachLoop } from './attach-loop.js';
import { type Release, RELEASED } from './guarded-store.js';
import type { Call } from './call.js';
import { Contention } from './contention.js';
import { FairLoop } from './fair-queues.js';
import { HeldLock } from './held-lock.js';
import { Hold } from './hold.js';
import { Lease } from './lease.js';
import type { LocalQueue } from './local-queue.js';
import type { LockRuntime } from './lock-runtime.js';
import { Grace, TakeoverLoop } from './takeover.js';

/**
 * The states of an owner, and all of its transitions.
 *
 * | From    | When                                                             | To      |
 * | ------- | ---------------------------------------------------------------- | ------- |
 * | waiting | the store grants the lock                                        | granted |
 * | granted | enough of the lease is left, and the next caller enters          | held    |
 * | granted | the store says that the lock was lost, and nobody had it yet     | waiting |
 * | held    | a caller releases, and the next one enters by a local hand-off   | held    |
 * | held    | the last caller releases, or the lock is lost                    | ended   |
 * | waiting | nobody waits any more (`endIfUnused`)                       | ended   |
 * | granted | nobody waits any more, or the grace of a takeover is over        | ended   |
 *
 * `granted`: this owner has the lock, and no caller has entered yet. It stays so while a renewal must be answered before a caller may
 * enter. `held`: one caller has the lock, or several readers of this process do. `ended` is final, because an owner id is never used
 * again.
 */
type State =
  | { readonly kind: 'waiting' }
  | { readonly kind: 'granted'; readonly lease: Lease }
  | { readonly kind: 'held'; readonly lease: Lease }
  | { readonly kind: 'ended' };

const WAITING: State = { kind: 'waiting' };
const ENDED: State = { kind: 'ended' };

/**
 * After this many grants in a row that took longer to arrive than their lease lasts, the owner rejects all of its callers: later grants
 * would be too slow, too.
 */
const MAX_SLOW_REPLIES = 3;

/**
 * One process's stay with one key, from its first request to the store until giving the key up. Many callers share it.
 *
 * 1. The local queue creates the owner for the first caller that none of its owners can serve. The acquire loop asks the store, on behalf of all callers of that
 *    queue, until the store grants the lock.
 * 2. The owner starts a lease for the grant. If the grant came by notification, it is not confirmed yet, and the owner sends a renewal
 *    before any caller runs.
 * 3. If the lease is valid, the owner admits the first caller (all waiting readers, if they share). Otherwise it waits for the reply to
 *    the renewal and tries again.
 * 4. When that caller releases, the owner admits the next local caller with the next reserved token and without a request to the store,
 *    while such local hand-offs are safe for the lease and fair to other processes. An owner that asked for one caller alone has reserved
 *    no further token.
 * 5. Otherwise it sends one release and ends, and the store grants the next owner. If callers still wait here, the local queue creates
 *    another owner for them.
 * 6. If the lock is lost before any caller was admitted, the owner goes back to step 1 with its ticket. If it is lost later, all holds
 *    are lost and the owner ends.
 *
 * The rules behind this and the failures that they prevent: docs/decisions/0003.
 */
export class Owner {
  readonly key: string;
  readonly id: string;
  readonly terms: Terms;
  /** How this owner asks for the key and holds it: as `terms.claim` says, until `downgrade()` makes it shared. */
  claim: Claim;
  private state: State = WAITING;
  /** The holds of the callers that this owner has admitted, in the order in which it admitted them. */
  readonly holds = new SmallSet<Hold>();
  /** When the last minimum hold of this owner's released holds ends; 0 if there is none, and after a takeover or a forced release. */
  private minimumUntil = 0;
  readonly acquireLoop: AcquireLoop;
  readonly contention = new Contention(this);
  private slowReplies = 0;
  private isDowngraded = false;
  /** Set while another call takes this lock over. Every check of the lease looks at it, so a late timer does not make the grace longer. */
  grace: Grace | undefined;
  /** A `lost` notification came while this owner waited, perhaps ahead of the grant that it ends. A renewal must confirm the next grant. */
  private isGrantInDoubt = false;

  constructor(
    readonly queue: LocalQueue,
    readonly runtime: LockRuntime,
  ) {
    const { key, terms } = queue;
    this.key = key;
    this.terms = terms;
    this.claim = terms.claim;
    this.id = runtime.owners.register(this);
    this.acquireLoop = this.createLoop();
  }

  private createLoop(): AcquireLoop {
    const { detached, terms } = this.queue;
    if (detached) return new AttachLoop(this, detached);
    if (terms.graceMs !== undefined) return new TakeoverLoop(this, terms.graceMs);
    return terms.fair ? new FairLoop(this) : new AcquireLoop(this);
  }

  get isHeld(): boolean {
    return this.state.kind === 'held';
  }

  /** The lease of the present grant; `undefined` before the grant and after the end. */
  get lease(): Lease | undefined {
    const { state } = this;
    return state.kind === 'held' || state.kind === 'granted' ? state.lease : undefined;
  }

  get now(): number {
    return this.runtime.clock.now();
  }

  readClocks(): ClockReading {
    return readClocks(this.runtime.clock);
  }

  get validForMs(): number {
    const { lease, grace } = this;
    if (!lease) return 0;
    const at = this.readClocks();
    const validMs = lease.measureValidity(at);
    return grace ? Math.max(0, Math.min(validMs, grace.leftMs(at))) : validMs;
  }

  get leaseMs(): number {
    return this.lease?.leaseMs ?? this.terms.leaseMs;
  }

  // --- waiting --------------------------------------------------------------------------------------------------

  /** Sends an acquire request now, or, while the grant is being confirmed, a renewal. Sends nothing if one is in flight. */
  askNow(): void {
    if (this.state.kind === 'granted') this.state.lease.renewNow();
    else this.acquireLoop.askNow();
  }

  onNotification(notification: Notification): void {
    switch (notification.kind) {
      case 'granted':
        return this.onGrant(notification);
      case 'contended':
        // Anyone who may publish in the store can forge this notification. So it may start the budget, which only makes this owner
        // release sooner. Only a reply of the store may end the budget.
        this.contention.onOthers(notification.waiting);
        return;
      case 'lost':
        this.isGrantInDoubt ||= this.state.kind === 'waiting';
        return this.grace
          ? this.onGraceOver(this.grace)
          : this.onLost(
              'taken',
              `it was released by force${notification.by ? `, by ${notification.by}` : ''}`,
            );
      case 'takeover':
        return this.onTakeover(notification);
      case 'recheck':
        return this.acquireLoop.recheckAfter(notification.afterMs);
      case 'gap':
        return this.acquireLoop.recheckAfter(0);
      default:
        notification satisfies never;
    }
  }

  onGrant(grant: Grant, at = this.readClocks()): void {
    const { state, acquireLoop } = this;
    // A late grant to an ended owner needs no reaction: the store repeats the owner's release until no grant of it can be left.
    if (state.kind === 'ended') return;
    if (state.kind !== 'waiting') return this.onGrantAgain(state.lease, grant);
    acquireLoop.stop();
    // A grant in doubt counts as unconfirmed: nobody is admitted under it before a renewal has confirmed it.
    const believed = this.isGrantInDoubt ? { ...grant, confirmed: false, validUntil: CONFIRM_FIRST } : grant;
    const lease = new Lease(this, believed, at.now);
    this.isGrantInDoubt = false;
    this.state = { kind: 'granted', lease };
    const { grace } = this;
    if (grace && grace.leftMs(at) <= 0) return this.onGraceOver(grace);
    this.contention.onWaitingCount(grant.waiting, acquireLoop.asked.now);
    // Confirm before the caller starts, because its work may block the event loop for longer than the initial lease.
    if (!lease.isConfirmed) lease.renewNow();
    this.admit(lease, at);
    if (this.lease) grace?.report();
  }

  /** Handles a grant that arrives while this owner already has one. A different token means that the earlier grant was lost. */
  private onGrantAgain(lease: Lease, grant: Grant): void {
    if (grant.token !== lease.token) this.onLost('taken', 'it was lost and granted anew');
    else if (grant.confirmed) lease.onGrantedAgain(grant);
  }

  // --- granted --------------------------------------------------------------------------------------------------

  /**
   * Admits a caller if the lease is valid. If the grant took longer than its lease to arrive, or must be confirmed first, the owner sends a
   * renewal, and `onConfirmed` tries again.
   */
  private admit(lease: Lease, at: ClockReading): void {
    const isValid = lease.measureValidity(at) > 0;
    if (isValid) this.slowReplies = 0;
    else if (lease.isConfirmed) this.onSlowReply(lease.leaseMs);
    if (this.endIfUnused()) return;
    if (isValid) this.admitNext(lease, at.now);
    else lease.renewNow();
  }

  onConfirmed(): void {
    const { state } = this;
    if (state.kind === 'granted') this.admit(state.lease, this.readClocks());
  }

  onUnanswered(error: LockStoreError): void {
    if (this.state.kind !== 'granted') return;
    this.queue.onStoreError(error);
    this.queue.rejectNeedingAnswerNow(error);
    this.endIfUnused();
  }

  private onSlowReply(leaseMs: number): void {
    const { key, queue } = this;
    this.slowReplies += 1;
    const message = `Could not acquire "${key}": the store's answer took longer than the lease of ${leaseMs} ms (${this.slowReplies} in a row). Use a lease longer than a round trip to the store.`;
    const tooSlow = new LockStoreError(message, key, 'unknown');
    if (this.slowReplies < MAX_SLOW_REPLIES) queue.rejectNeedingAnswerNow(tooSlow);
    else queue.dismissAll(tooSlow);
  }

  // --- held -----------------------------------------------------------------------------------------------------

  /** Admits the next caller of the local queue, or all waiting readers. At least one must wait. */
  private admitNext(lease: Lease, now: number): void {
    const { queue } = this;
    if (!this.isHeld) this.state = { kind: 'held', lease };
    lease.start();
    if (lease.hasAdmittedNobody) this.contention.onFirstCaller(now);
    do this.openHold(queue.shift() as Call, lease, now);
    while (this.isForMany && lease.hasToken && queue.size > 0);
    queue.onServed(this);
  }

  private openHold(call: Call, lease: Lease, now: number): void {
    const { key, id: owner, runtime } = this;
    const by = lease.hasAdmittedNobody ? 'store' : 'local';
    const hold = new Hold(lease, call, now);
    this.holds.add(hold);
    if (runtime.hears('acquired')) {
      const { fencingToken } = hold;
      const waitedMs = now - call.waitingSince;
      runtime.emit({ type: 'acquired', call: call.number, key, owner, fencingToken, waitedMs, by });
    }
    // Depth 0: if the caller's flow held the key, the call would have shared that hold and would not wait here.
    call.resolve(new HeldLock([hold], 0));
  }

  /**
   * Called when a reader joins the local queue while this owner holds for readers. Admits it at once, unless other processes wait for the
   * key: if new readers kept entering, a writer that waits there would never get it.
   */
  admitReaders(): void {
    const { state } = this;
    if (state.kind !== 'held' || !this.isForMany || this.contention.hasWaitingOwners) return;
    const { lease } = state;
    const at = this.readClocks();
    if (!this.mayHandOff(lease, at) || lease.measureValidity(at) <= 0) return;
    lease.renewIfStale(at.now);
    this.admitNext(lease, at.now);
  }

  /** Whether this owner admits all waiting readers at once. They share one lease, so the watchdog must renew it: a fixed one would end. */
  private get isForMany(): boolean {
    const { claim, watched, fair } = this.terms;
    return claim.kind === 'shared' && watched && !fair;
  }

  noticeExpiry(at?: ClockReading): void {
    const { state, grace } = this;
    if (grace && grace.leftMs(at) <= 0) return this.onGraceOver(grace);
    if (state.kind !== 'held') return;
    const { lease } = state;
    const validity = lease.state(at);
    if (validity === 'expired') this.onLost('expired', lease.expiryDetail());
    else if (validity === 'unsure') lease.renewNow();
  }

  /** Whether a minimum hold still runs, of this owner's present holds or of earlier ones. */
  get hasMinimumHold(): boolean {
    return maxOf([this.minimumUntil, ...Array.from(this.holds, (hold) => hold.holdUntil)]) > this.now;
  }

  /** Turns an exclusive lock into a shared one. Callers that still wait here want it exclusively, so the queue starts another owner. */
  async downgrade(): Promise<void> {
    const { terms, lease } = this;
    if (!lease || !isExclusive(terms.claim) || this.isDowngraded) return;
    this.claim = SHARED;
    const isAnswered = lease.stepDown();
    this.queue.onOwnerEnded(this);
    await isAnswered;
    this.isDowngraded = true;
  }

  // --- taken over -----------------------------------------------------------------------------------------------

  /** Starts the grace of a takeover. If several calls take the lock over, the grace that ends first counts. */
  private onTakeover(notice: Pick<TakeoverNotice, 'graceMs' | 'by'>): void {
    const { grace } = this;
    if (this.state.kind === 'ended' || grace?.isOverBefore(notice)) return;
    grace?.stop();
    this.grace = new Grace(this, notice);
    // The notice may arrive before the reply with the grant, for example one that waits for replicas. Then `onGrant` reports the takeover.
    if (this.lease) this.grace.report();
  }

  onGraceOver({ graceMs, by }: Grace): void {
    this.onLost('takeover', `${by} has taken it over, and its grace of ${graceMs} ms is over`);
  }

  private dropGrace(): void {
    this.grace?.stop();
    this.grace = undefined;
  }

  // --- lost -----------------------------------------------------------------------------------------------------

  /**
   * Ends this owner after a loss: its holds are lost and their callers are notified. If no caller was admitted yet, nobody had the
   * lock, so the owner waits in the store's queue again with its ticket.
   */
  onLost(reason: LockLostError['reason'], detail: string): void {
    const { lease } = this;
    if (!lease) return;
    // After a takeover this owner must end and release, even if it has admitted nobody: in the store it is still the holder, and when the
    // grace is over, nobody notifies it again.
    if (this.state.kind === 'granted' && reason !== 'takeover') return this.backToQueue(lease);
    this.end();
    const isTaken = reason === 'takeover' || reason === 'taken';
    const lost = Array.from(this.holds).filter((hold) => !hold.isOver);
    this.minimumUntil = isTaken ? 0 : maxOf([this.minimumUntil, ...lost.map((hold) => hold.holdUntil)]);
    // Mark all holds as lost before the first listener is notified, because that listener may use or release another hold.
    for (const hold of lost) hold.lose(reason, detail, lease.renewalError);
    for (const hold of lost) hold.tellLoss();
    const request = this.releaseRequest(lease);
    const { holdUntil } = request;
    // Send a release even after an expiry, because it also cancels acquires that may still be under way. Delay it until the lease has ended
    // in the store, too (`marginMs`). During a minimum hold send it at once: the store can keep the key locked for the rest of that hold
    // only while the lease has not ended there.
    const isOver = reason === 'expired' && holdUntil === undefined;
    this.sendRelease(request, isOver ? lease.marginMs : 0);
  }

  private backToQueue(lease: Lease): void {
    lease.stop();
    this.dropGrace();
    this.state = WAITING;
    this.acquireLoop.start();
  }

  // --- end ------------------------------------------------------------------------------------------------------

  /** Ends an owner that no caller uses and none waits for. @returns whether it has ended */
  endIfUnused(): boolean {
    const { state, queue, acquireLoop } = this;
    if (state.kind === 'ended') return true;
    if (queue.size > 0 || state.kind === 'held') return false;
    if (state.kind === 'granted' || acquireLoop.mayBeQueued) this.releaseInStore();
    else {
      this.end();
      this.deregister();
    }
    return true;
  }

  /** Ends one hold. After the last one the owner makes a local hand-off, or sends a release. */
  release(hold: Hold, isAwaited: boolean, at: ClockReading): Release {
    const { holds, lease } = this;
    holds.delete(hold);
    this.minimumUntil = Math.max(this.minimumUntil, hold.holdUntil);
    this.contention.count();
    if (holds.size > 0) return RELEASED;
    if (!lease || this.minimumUntil > at.now || !this.mayHandOff(lease, at))
      return this.releaseInStore(isAwaited);
    lease.renewIfStale(at.now);
    this.admitNext(lease, at.now);
    return RELEASED;
  }

  /**
   * Whether the owner may pass the lock to the next local caller without asking the store. The lease must be far from its end and a
   * reserved token left, the budget must not be spent, and no other call may be taking the lock over.
   */
  private mayHandOff(lease: Lease, at: ClockReading): boolean {
    const { fair, claim } = this.terms;
    if (this.queue.size === 0 || fair || claim !== this.claim) return false;
    if (this.grace) return false;
    return !this.contention.isSpent(at.now) && lease.mayHandOff(at);
  }

  private releaseInStore(isAwaited = false): Release {
    const { lease } = this;
    this.end();
    return this.sendRelease(this.releaseRequest(lease, isAwaited));
  }

  /** Made once for each release: if a repetition named another last token, the store could give one token out twice. */
  private releaseRequest(lease: Lease | undefined, isAwaited = false): ReleaseRequest {
    const { key, id: owner, claim, terms, minimumHoldEnd: holdUntil } = this;
    const { leaseMs } = lease ?? terms;
    const whenAwaited = isAwaited ? 'when idle' : undefined;
    const flush = this.contention.hasWaitingOwners ? 'now' : whenAwaited;
    return { key, owner, claim, leaseMs, used: lease?.used, holdUntil, flush };
  }

  /** The end of the minimum hold; `undefined` if it is over or there is none. */
  private get minimumHoldEnd(): number | undefined {
    const { minimumUntil } = this;
    return minimumUntil > 0 && minimumUntil > this.now ? minimumUntil : undefined;
  }

  private sendRelease(request: ReleaseRequest, delayMs = 0): Release {
    // Send the release first: `deregister` may start the next owner of this queue, which must come behind the waiters of other processes.
    const released = this.runtime.store.release(request, delayMs);
    this.deregister();
    return released;
  }

  private end(): void {
    const { lease } = this;
    this.state = ENDED;
    this.acquireLoop.stop();
    lease?.stop();
    this.dropGrace();
  }

  private deregister(): void {
    this.runtime.owners.deregister(this);
    this.queue.onOwnerEnded(this);
  }
}
