import { arrivedReplies, type ClockReading, readClocks } from '../../common/clock.js';
import type { NeverRejects } from '../../common/promises.js';
import { type Claim, isExclusive, SHARED } from '../../port/lock-store.js';
import type { Grant, Notification, ReleaseRequest, TakeoverNotice } from '../../port/lock-store.js';
import { LockConfigurationError, LockLostError, LockStoreError } from '../../port/lock.errors.js';
import type { Terms } from '../request/lock-request.js';
import { AcquireLoop } from './acquire-loop.js';
import { type Release, RELEASED } from './guarded-store.js';
import { Contention } from './hand-off-budget.js';
import { HeldLock } from './held-lock.js';
import { Hold } from './hold.js';
import { Lease } from './lease.js';
import type { LocalQueue } from './local-queue.js';
import type { LockRuntime } from './lock-runtime.js';
import { OwnerHolds } from './owner-holds.js';
import { Grace, Takeover } from './takeover.js';

/**
 * The states of an owner. Every other method of the class serves one of these transitions.
 *
 * | From       | When                                                                        | To                  |
 * | ---------- | --------------------------------------------------------------------------- | ------------------- |
 * | waiting    | the store grants the lock, and enough of the lease is left                  | held                |
 * | waiting    | the store grants the lock, and a renewal must be answered before it is used | confirming          |
 * | waiting    | the last caller gives up                                                    | ended               |
 * | confirming | the store answers the renewal                                               | held, or confirming |
 * | confirming | the store says that the lock was lost, and nobody had it yet                | waiting             |
 * | confirming | the last caller gives up                                                    | ended               |
 * | held       | a caller releases, and the next one enters by a local hand-off              | held                |
 * | held       | a caller releases before the grant is confirmed, and others wait            | confirming          |
 * | held       | the last caller releases, or the lock is lost                               | ended               |
 *
 * While an owner is `held`, a caller holds the lock; several, if they are readers of one process. A grant by notification
 * that came in time is held at once, and confirmed meanwhile: `Lease.isConfirmed` says so. `ended` is for good, because an
 * owner id is never used again.
 */
type State =
  | { readonly kind: 'waiting' }
  | { readonly kind: 'confirming'; readonly lease: Lease }
  | { readonly kind: 'held'; readonly lease: Lease }
  | { readonly kind: 'ended' };

const WAITING: State = { kind: 'waiting' };
const ENDED: State = { kind: 'ended' };

/**
 * After this many replies in a row that took longer than the lease, the callers are rejected: the next ones would be too slow,
 * too.
 */
const MAX_SLOW_REPLIES = 3;

/**
 * One process's stay with one key, from joining the store's queue until giving the key up.
 *
 * An owner asks the store on behalf of all callers of its local queue, and makes local hand-offs while these are safe and
 * fair. It ends once and for good. The rules and the failures that they prevent: docs/decisions/0003.
 */
export class Owner {
  readonly key: string;
  readonly id: string;
  readonly terms: Terms;
  /** How it asks and holds: as its terms say, until `downgrade()`. */
  claim: Claim;
  private state: State = WAITING;
  readonly holds = new OwnerHolds(this);
  readonly acquireLoop: AcquireLoop;
  readonly contention = new Contention(this);
  private slowReplies = 0;
  private isDowngraded = false;
  /** Another call takes the lock over. It is over with the grace, also if no timer has run by then. */
  takeover: Grace | undefined;
  /** The store has said that the lock was lost before its grant was here. The next grant may be that one, so it must be confirmed. */
  private isGrantInDoubt = false;

  constructor(
    readonly callers: LocalQueue,
    readonly runtime: LockRuntime,
  ) {
    const { key, terms } = callers;
    this.key = key;
    this.terms = terms;
    this.claim = terms.claim;
    this.id = runtime.owners.register(this);
    const { graceMs } = terms;
    const takeover = graceMs === undefined ? undefined : new Takeover(this, graceMs);
    this.acquireLoop = new AcquireLoop(this, takeover);
  }

  get isHeld(): boolean {
    return this.state.kind === 'held';
  }

  get isGranted(): boolean {
    return this.lease !== undefined;
  }

  /** The lease of the present grant. */
  get lease(): Lease | undefined {
    const { state } = this;
    return state.kind === 'held' || state.kind === 'confirming' ? state.lease : undefined;
  }

  get now(): number {
    return this.runtime.clock.now();
  }

  readClocks(): ClockReading {
    return readClocks(this.runtime.clock);
  }

  get validForMs(): number {
    return this.measureValidity(this.readClocks());
  }

  measureValidity(at: ClockReading): number {
    const { lease, takeover } = this;
    if (!lease) return 0;
    const validMs = lease.measureValidity(at);
    return takeover ? Math.max(0, Math.min(validMs, takeover.leftMs(at))) : validMs;
  }

  get leaseMs(): number {
    return this.lease?.leaseMs ?? this.terms.leaseMs;
  }

  // --- waiting --------------------------------------------------------------------------------------------------

  /** Sends the next request at once if none is in flight, because a caller cannot wait for the next recheck. */
  askNow(): void {
    if (this.state.kind === 'confirming') this.state.lease.renewNow();
    else this.acquireLoop.askNow();
  }

  onNotification(notification: Notification): void {
    switch (notification.kind) {
      case 'granted':
        return this.onGrant(notification);
      case 'contended':
        // A forged notification may start the budget, but only a reply of the store may clear it.
        this.contention.onOthers(notification.waiting);
        return;
      case 'lost':
        this.isGrantInDoubt ||= this.state.kind === 'waiting';
        return this.takeover
          ? this.onGraceOver(this.takeover)
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
    // The store repeats the release of an ended owner until no grant of it can be left.
    if (state.kind === 'ended') return;
    if (state.kind !== 'waiting') return this.onGrantAgain(state.lease, grant);
    acquireLoop.stop();
    const lease = new Lease(
      this,
      this.isGrantInDoubt ? unconfirmed(grant) : grant,
      at.now,
      acquireLoop.asked.wallClockOffset,
    );
    this.isGrantInDoubt = false;
    this.state = { kind: 'confirming', lease };
    const { takeover } = this;
    if (takeover && takeover.leftMs(at) <= 0) return this.onGraceOver(takeover);
    this.contention.onWaitingCount(grant.waiting, acquireLoop.asked.now);
    // Sent before the caller starts, because the caller may block the event loop for longer than the initial lease.
    if (!lease.isConfirmed) lease.renewNow();
    this.admit(lease, at);
    if (!this.isHeld) this.callers.watchFirst(at.now);
    if (this.isGranted) takeover?.report();
  }

  /** A second grant with the same token confirms the first. Another token means that the first grant was lost in between. */
  private onGrantAgain(lease: Lease, grant: Grant): void {
    if (grant.token !== lease.token) this.onLost('taken', 'it was lost and granted anew');
    else if (grant.confirmed) lease.onGrantedAgain(grant);
  }

  /** No caller is left. The owner releases, unless the store cannot have it in its queue. */
  abandon(): void {
    if (this.acquireLoop.mayBeQueued) this.releaseInStore();
    else {
      this.end();
      this.deregister();
    }
  }

  /** No caller waits any more. An owner that waits, or whose grant is not confirmed, releases. */
  onLastCallerLeft(): void {
    if (this.acquireLoop.isRunning || this.state.kind === 'confirming') this.releaseInStore();
  }

  // --- confirming -----------------------------------------------------------------------------------------------

  /** Admits a caller if the lease is valid. It is not if the grant took longer than its lease, or must be confirmed first. */
  private admit(lease: Lease, at: ClockReading): void {
    if (lease.measureValidity(at) > 0) {
      this.slowReplies = 0;
      return this.admitNext(lease, at.now);
    }
    if (lease.isConfirmed) this.onSlowReply(lease.leaseMs);
    if (this.callers.size === 0) this.releaseInStore();
    else lease.renewNow();
  }

  onConfirmed(): void {
    const { state } = this;
    if (state.kind !== 'confirming') return;
    const { lease } = state;
    const at = this.readClocks();
    // The first caller has released meanwhile, so that the next one enters by a local hand-off.
    const isHandOff = !lease.hasAdmittedNobody;
    if (isHandOff && !this.mayHandOff(lease, at)) this.releaseInStore();
    else this.admit(lease, at);
  }

  onUnanswered(error: LockStoreError): void {
    if (this.state.kind !== 'confirming') return;
    this.callers.onStoreError(error);
    this.callers.rejectNeedingAnswerNow(error);
    if (this.callers.size === 0) this.releaseInStore();
  }

  private onSlowReply(leaseMs: number): void {
    const { key, callers } = this;
    this.slowReplies += 1;
    const message = `Could not acquire "${key}": the store's answer took longer than the lease of ${leaseMs} ms (${this.slowReplies} in a row). Use a lease longer than a round trip to the store.`;
    const tooSlow = new LockStoreError(message, key, 'unknown');
    if (this.slowReplies < MAX_SLOW_REPLIES) callers.rejectNeedingAnswerNow(tooSlow);
    else callers.dismissAll(tooSlow);
  }

  // --- held -----------------------------------------------------------------------------------------------------

  /** Admits the next caller, or all waiting readers. Without any caller the owner releases. */
  private admitNext(lease: Lease, now: number): void {
    const { callers } = this;
    let next = callers.shift();
    if (!next) {
      this.releaseInStore();
      return;
    }
    if (!this.isHeld) this.state = { kind: 'held', lease };
    lease.start();
    if (lease.hasAdmittedNobody) this.contention.onFirstCaller(now);
    // A depth of 0: an outer call that has the lock would have shared it.
    do next.resolve(new HeldLock([this.holds.open(next, lease, now)], 0));
    while (this.isForMany && lease.hasToken && (next = callers.shift()));
    callers.onServed(this);
  }

  /** A reader has joined the local queue while this owner holds for readers. It is admitted unless the key is contended. */
  admitReaders(): void {
    const { state } = this;
    if (state.kind !== 'held' || !this.isForMany || this.contention.isRunning) return;
    const { lease } = state;
    const at = this.readClocks();
    if (!this.mayHandOff(lease, at) || lease.measureValidity(at) <= 0) return;
    lease.renewIfStale(at.now);
    this.admitNext(lease, at.now);
  }

  /** All readers of a process share one lease, if the watchdog renews it. */
  private get isForMany(): boolean {
    const { claim, watched, fair } = this.terms;
    return claim.kind === 'shared' && watched && !fair;
  }

  whenSure(): NeverRejects<void> {
    return this.lease ? (this.lease.whenSure() as NeverRejects<void>) : arrivedReplies(this.runtime.clock);
  }

  noticeExpiry(at?: ClockReading): void {
    const { takeover } = this;
    if (takeover && takeover.leftMs(at) <= 0) this.onGraceOver(takeover);
    else this.lease?.noticeExpiry(at);
  }

  /** The store grants readers beside this owner. Callers that still wait in the local queue need another owner. */
  async downgrade(): Promise<void> {
    const { key, terms, lease } = this;
    if (terms.claim.kind === 'permits') {
      throw new LockConfigurationError(`"${key}" is held by permits: downgrade() is for exclusive locks.`);
    }
    if (!lease || !isExclusive(terms.claim) || this.isDowngraded) return;
    this.claim = SHARED;
    const isAnswered = lease.stepDown();
    this.callers.onOwnerEnded(this);
    await isAnswered;
    this.isDowngraded = true;
  }

  // --- taken over -----------------------------------------------------------------------------------------------

  /** The lease goes on until the work has ended, or the grace is over. Of several takeovers the one whose grace ends first counts. */
  private onTakeover(notice: Pick<TakeoverNotice, 'graceMs' | 'by'>): void {
    const { takeover } = this;
    if (this.state.kind === 'ended' || takeover?.isOverBefore(notice)) return;
    takeover?.stop();
    this.takeover = new Grace(this, notice);
    // The notice may come before the reply that grants the lock, which waits for replicas, for example.
    if (this.isGranted) this.takeover.report();
  }

  onGraceOver({ graceMs, by }: Grace): void {
    this.onLost('takeover', `${by} has taken it over, and its grace of ${graceMs} ms is over`);
  }

  private dropTakeover(): void {
    this.takeover?.stop();
    this.takeover = undefined;
  }

  // --- lost -----------------------------------------------------------------------------------------------------

  /** An owner that has admitted no caller goes back to the store's queue with its ticket. */
  onLost(reason: LockLostError['reason'], detail: string): void {
    const { lease } = this;
    if (!lease) return;
    // The store still has the lock for one whose grace is over, and the call that takes it over would not tell the same owner again.
    if (lease.hasAdmittedNobody && reason !== 'takeover') return this.backToQueue(lease);
    const request = this.releaseRequest(lease);
    this.end();
    this.holds.lose(reason, detail, lease.suspendedBy);
    const { holdUntil } = this.holds;
    // The rest of a minimum hold must be written while the store still has the lease.
    const isOver = reason === 'expired' && holdUntil === undefined;
    this.sendRelease({ ...request, holdUntil }, isOver ? lease.marginMs : 0);
  }

  private backToQueue(lease: Lease): void {
    lease.stop();
    this.dropTakeover();
    this.state = WAITING;
    this.acquireLoop.start();
  }

  // --- release --------------------------------------------------------------------------------------------------

  /** Ends a hold. After its last one the owner makes a local hand-off, or releases and so leaves the hand-off to the store. */
  release(hold: Hold, isAwaited: boolean, at: ClockReading): Release {
    const { holds, lease } = this;
    const isHeard = holds.close(hold, at);
    this.contention.count();
    if (holds.size > 0) return RELEASED;
    // A listener of the event may have blocked the event loop since.
    const after = isHeard && this.callers.size > 0 ? this.readClocks() : at;
    if (!lease || holds.minimumUntil > after.now || !this.mayHandOff(lease, after))
      return this.releaseInStore(isAwaited);
    if (lease.isConfirmed) {
      lease.renewIfStale(after.now);
      this.admitNext(lease, after.now);
    } else this.state = { kind: 'confirming', lease };
    return RELEASED;
  }

  /** A local hand-off needs a lease that is far from its end, a reserved token, and a budget that is not spent. */
  private mayHandOff(lease: Lease, at: ClockReading): boolean {
    const { watched, fair, claim } = this.terms;
    if (this.callers.size === 0 || !watched || fair || claim !== this.claim) return false;
    if (this.takeover) return false;
    return !this.contention.isSpent(at.now) && lease.mayHandOff(at);
  }

  private releaseInStore(isAwaited = false): Release {
    const request = this.releaseRequest(this.lease, isAwaited);
    this.end();
    return this.sendRelease(request);
  }

  /** Built once: a repetition with another last token would let the store give one token out twice. */
  private releaseRequest(lease: Lease | undefined, isAwaited = false): ReleaseRequest {
    const { key, id: owner, claim, leaseMs } = this;
    const { holdUntil } = this.holds;
    const whenAwaited = isAwaited ? 'when idle' : undefined;
    const flush = this.contention.isRunning ? 'now' : whenAwaited;
    return { key, owner, claim, leaseMs, used: lease?.used, holdUntil, flush };
  }

  private sendRelease(request: ReleaseRequest, delayMs = 0): Release {
    const released = this.runtime.releases.send(request, delayMs);
    this.deregister();
    return released;
  }

  private end(): void {
    const { lease } = this;
    this.state = ENDED;
    this.acquireLoop.stop();
    lease?.stop();
    this.dropTakeover();
  }

  private deregister(): void {
    this.runtime.owners.deregister(this);
    this.callers.onOwnerEnded(this);
  }
}

/** Nobody is admitted under it before a renewal has confirmed it. */
function unconfirmed(grant: Grant): Grant {
  return { ...grant, confirmed: false, validUntil: -Infinity };
}
