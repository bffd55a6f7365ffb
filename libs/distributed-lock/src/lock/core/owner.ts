import { readClocks, type ClockReading } from '../../time/clock.js';
import { arrivedReplies, nextTurn } from '../../time/turns.js';
import { maxOf } from '../../collections/extremes.js';
import { SmallSet } from '../../collections/small-set.js';
import { detached } from '../../async-context/detached.js';
import type { NeverRejects } from '../../async-context/in-background.js';
import { isExclusive, SHARED, type Claim } from '../../port/claim.js';
import {
  LockConfigurationError,
  LockLostError,
  LockStoreError,
  type LockShutdownError,
} from '../../port/lock.errors.js';
import type { ReleaseRequest, Grant, Notification, TakeoverNotice } from '../../port/lock-store.js';
import { maxNoticeMs } from '../../port/notice-time.js';
import { HeldLock } from './held-lock.js';
import { Hold } from './hold.js';
import { RELEASED, type Release } from './release-tracker.js';
import { Lease } from './lease.js';
import type { LocalQueue } from './local-queue.js';
import type { Call } from './call.js';
import { CallSite } from '../request/call-site.js';
import type { Terms } from '../request/lock-request.js';
import type { LockRuntime } from './lock-runtime.js';
import type { ForgottenHold } from './forgotten-releases.js';
import { AcquireLoop } from './acquire-loop.js';
import { HandOffBudget } from './hand-off-budget.js';
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
  /** The holds of the callers that have the lock now, in the order in which they were admitted. */
  private readonly holds = new SmallSet<Hold>();
  /** The latest end of a minimum hold, of the holds that have ended. A takeover and force end all minimum holds. */
  private minimumUntil = 0;
  private readonly acquireLoop: AcquireLoop;
  private readonly budget = new HandOffBudget();
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

  start(): void {
    this.acquireLoop.start();
  }

  /** Sends the next request at once if none is in flight, because a caller cannot wait for the next recheck. */
  askNow(): void {
    if (this.state.kind === 'confirming') this.state.lease.renewNow();
    else this.acquireLoop.askNow();
  }

  recheckAfter(ms: number): void {
    this.acquireLoop.recheckAfter(ms);
  }

  onJoined(): void {
    this.acquireLoop.stayInQueue();
  }

  onNotification(notification: Notification): void {
    switch (notification.kind) {
      case 'granted':
        return this.onGrant(notification);
      case 'contended':
        // A forged notification may start the budget, but only a reply of the store may clear it.
        this.startBudget(notification.waiting);
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
        return this.recheckAfter(notification.afterMs);
      case 'gap':
        return this.recheckAfter(0);
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
      acquireLoop.asked.lead,
    );
    this.isGrantInDoubt = false;
    this.state = { kind: 'confirming', lease };
    const { takeover } = this;
    if (takeover && takeover.leftMs(at) <= 0) return this.onGraceOver(takeover);
    this.onWaitingCount(grant.waiting, acquireLoop.asked.now);
    // Sent before the caller starts, because the caller may block the event loop for longer than the initial lease.
    if (!lease.isConfirmed) lease.renewNow();
    this.admit(lease, at);
    if (!this.isHeld) this.callers.watchFirst(at.now);
    if (takeover && this.isGranted) this.reportTakeover(takeover);
  }

  /** A second grant with the same token confirms the first. Another token means that the first grant was lost in between. */
  private onGrantAgain(lease: Lease, grant: Grant): void {
    if (grant.token !== lease.token) this.onLost('taken', 'it was lost and granted anew');
    else if (grant.confirmed) lease.onGrantedAgain(grant);
  }

  /** No caller is left. The owner releases, unless the store cannot have it in its queue. */
  giveUpWaiting(): void {
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
    this.callers.dismissImpatient(error);
    if (this.callers.size === 0) this.releaseInStore();
  }

  private onSlowReply(leaseMs: number): void {
    const { key, callers } = this;
    this.slowReplies += 1;
    const message = `Could not acquire "${key}": the store's answer took longer than the lease of ${leaseMs} ms (${this.slowReplies} in a row). Use a lease longer than a round trip to the store.`;
    const tooSlow = new LockStoreError(message, key, 'unknown');
    if (this.slowReplies < MAX_SLOW_REPLIES) callers.dismissImpatient(tooSlow);
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
    if (lease.hasAdmittedNobody) this.budget.onFirstCaller(now);
    // A depth of 0: an outer call that has the lock would have shared it.
    do next.resolve(new HeldLock([this.openHold(next, lease, now)], 0));
    while (this.isForMany && lease.hasToken && (next = callers.shift()));
    callers.onServed(this);
  }

  /** Gives a caller the lock, with a fencing token of its own. */
  private openHold(next: Call, lease: Lease, now: number): Hold {
    const { key, id: owner, runtime } = this;
    const by = lease.hasAdmittedNobody ? 'store' : 'local';
    const fencingToken = lease.takeToken();
    const hold = new Hold(this, next, fencingToken, now);
    this.holds.add(hold);
    if (runtime.hears('acquired')) {
      const { number: call, waitingSince } = next;
      const waitedMs = now - waitingSince;
      runtime.emit({ type: 'acquired', call, key, owner, fencingToken, waitedMs, by });
    }
    return hold;
  }

  /** A reader has joined the local queue while this owner holds for readers. It is admitted unless the key is contended. */
  admitReaders(): void {
    const { state } = this;
    if (state.kind !== 'held' || !this.isForMany || this.budget.isRunning) return;
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

  whyInDoubt(at?: ClockReading): string | undefined {
    return this.lease?.whyInDoubt(at);
  }

  whenSure(): NeverRejects<void> {
    return this.lease ? (this.lease.whenSure() as NeverRejects<void>) : arrivedReplies(this.runtime.clock);
  }

  noticeExpiry(at?: ClockReading): void {
    const { takeover } = this;
    if (takeover && takeover.leftMs(at) <= 0) this.onGraceOver(takeover);
    else this.lease?.noticeExpiry(at);
  }

  async extend(ms: number): Promise<void> {
    await this.lease?.extend(ms);
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

  get shutdown(): LockShutdownError | undefined {
    return this.runtime.owners.shutdownErrorOf?.(this.key);
  }

  reportShutdown(): void {
    for (const hold of this.holds) hold.tellShutdown();
  }

  allHolds(): Iterable<Hold> {
    return this.holds;
  }

  /** The holds of `acquire()` whose line of code is known, for the warning about a forgotten release. */
  heldByForgottenAcquire(): readonly ForgottenHold[] {
    if (this.callers.size === 0) return [];
    const { key, now } = this;
    return Array.from(this.holds).flatMap(({ site, acquiredAt }) =>
      site instanceof CallSite && site.isNoted ? [{ key, site, heldMs: now - acquiredAt }] : [],
    );
  }

  afterTurn(task: () => void): void {
    detached(() => nextTurn(this.runtime.clock, task));
  }

  // --- contended ------------------------------------------------------------------------------------------------

  onWaitingCount(waiting: number, askedAt: number): void {
    if (!this.startBudget(waiting)) this.budget.clear(askedAt);
  }

  /**
   * Starts the hand-off budget if other owners wait.
   *
   * @param waiting how many owners wait in the store's queue. One of them may be the next one of this local queue.
   */
  private startBudget(waiting: number): boolean {
    const others = waiting - (this.callers.isInStoreQueue ? 1 : 0);
    if (others <= 0) return false;
    const isNews = !this.isContended;
    this.budget.start(this.now, others, this.acquireLoop.roundTripMs);
    if (isNews) this.onContended();
    return true;
  }

  /** A caller of this process begins to wait, and no other waits. */
  onFirstWaiter(): void {
    if (!this.budget.isRunning) this.onContended();
    if (this.heldByForgottenAcquire().length > 0) this.runtime.forgottenReleases.onWaiter();
  }

  private onContended(): void {
    const { key, id: owner, runtime } = this;
    runtime.introductions.onContended();
    if (this.isHeld) runtime.emit({ type: 'contended', key, owner });
  }

  /** Owners in the store's queue wait, as far as this process knows. */
  get doOthersWait(): boolean {
    return this.budget.isRunning;
  }

  /** Others wait: callers in the local queue, or owners in the store's queue. */
  get isContended(): boolean {
    return this.callers.size > 0 || this.budget.isRunning;
  }

  // --- taken over -----------------------------------------------------------------------------------------------

  /**
   * The lease goes on until the work has ended, or the grace is over. Of several takeovers the one whose grace ends first counts.
   * A notice is repeated with what is left of the grace, and does not shorten what the holder was told first: it may be late by as much
   * as a force leaves for it. Two calls of one process have the same name.
   */
  private onTakeover(notice: Pick<TakeoverNotice, 'graceMs' | 'by'>): void {
    if (this.state.kind === 'ended') return;
    const { takeover, runtime } = this;
    const toldAt = this.readClocks();
    if (takeover) {
      const lateMs = notice.by === takeover.by ? maxNoticeMs(runtime.store.commandTimeoutMs) : 0;
      if (notice.graceMs >= takeover.leftMs(toldAt) - lateMs) return;
      takeover.stop();
    }
    const grace = new Grace(notice, toldAt, runtime.clock, () => this.onGraceOver(grace));
    this.takeover = grace;
    // The notice may come before the reply that grants the lock, which waits for replicas, for example.
    if (this.isGranted) this.reportTakeover(grace);
  }

  private reportTakeover({ graceMs, by }: Grace): void {
    const { key, id: owner, runtime } = this;
    runtime.emit({ type: 'takeover', key, owner, graceMs, by });
    for (const hold of this.holds) hold.tellTakeover();
  }

  private onGraceOver({ graceMs, by }: Grace): void {
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
    this.loseHolds(reason, detail, lease.suspendedBy);
    // The rest of a minimum hold must be written while the store still has the lease.
    const isOver = reason === 'expired' && this.minimumUntil <= this.now;
    this.sendRelease({ ...request, holdUntil: this.holdUntil }, isOver ? lease.marginMs : 0);
  }

  /** All holds are lost before the first listener is told, because it may use or release another hold. */
  private loseHolds(reason: LockLostError['reason'], detail: string, cause: Error | undefined): void {
    const { key, id: owner, now } = this;
    const isTaken = reason === 'takeover' || reason === 'taken';
    const ends = Array.from(this.holds, ({ holdUntil }) => holdUntil);
    this.minimumUntil = isTaken ? 0 : Math.max(this.minimumUntil, maxOf(ends));
    const losses = Array.from(this.holds, (hold) => {
      const error = new LockLostError(key, now - hold.acquiredAt, reason, detail, cause && { cause });
      return { hold, error, tell: hold.lose(error) };
    });
    for (const { hold, error, tell } of losses) {
      tell();
      const { call, fencingToken } = hold;
      this.runtime.emit({ type: 'lost', call, key, owner, fencingToken, error });
    }
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
    const { runtime, key, id: owner } = this;
    // Before the event, because a listener may block the event loop and unsubscribe.
    const isHeard = runtime.hears('released');
    if (isHeard) {
      const { call, fencingToken, acquiredAt } = hold;
      runtime.emit({ type: 'released', call, key, owner, fencingToken, heldMs: at.now - acquiredAt });
    }
    this.holds.delete(hold);
    this.minimumUntil = Math.max(this.minimumUntil, hold.holdUntil);
    this.budget.count();
    if (this.holds.size > 0) return RELEASED;
    // A listener of the event may have blocked the event loop since.
    const after = isHeard && this.callers.size > 0 ? this.readClocks() : at;
    const { lease } = this;
    if (!lease || this.minimumUntil > after.now || !this.mayHandOff(lease, after))
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
    return !this.budget.isSpent(at.now) && lease.mayHandOff(at);
  }

  private releaseInStore(isAwaited = false): Release {
    const request = this.releaseRequest(this.lease, isAwaited);
    this.end();
    return this.sendRelease(request);
  }

  /** Built once: a repetition with another last token would let the store give one token out twice. */
  private releaseRequest(lease: Lease | undefined, isAwaited = false): ReleaseRequest {
    const { key, id: owner, claim, leaseMs, holdUntil } = this;
    const whenAwaited = isAwaited ? 'when idle' : undefined;
    const flush = this.budget.isRunning ? 'now' : whenAwaited;
    return { key, owner, claim, leaseMs, used: lease?.used, holdUntil, flush };
  }

  /** The end of the minimum hold if it is still to come. */
  private get holdUntil(): number | undefined {
    const { minimumUntil } = this;
    return minimumUntil > 0 && minimumUntil > this.now ? minimumUntil : undefined;
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
