import { readClocks, type ClockReading } from '../../time/clock.js';
import { arrivedReplies, nextTurn } from '../../time/turns.js';
import { detached } from '../../async-context/detached.js';
import { AcquireLoop, type WaitingCallers } from './acquire-loop.js';
import type { Claim } from '../../port/claim.js';
import { HeldLock } from '../context/held-lock.js';
import { RELEASED, type Hold } from '../context/hold.js';
import { inBackground, type NeverRejects } from '../../async-context/in-background.js';
import { LeaseKeeper } from '../lease/lease-keeper.js';
import type { HoldSnapshot } from '../lock.js';
import type { LockRuntime } from '../runtime/lock-runtime.js';
import {
  LockConfigurationError,
  LockStoreError,
  type LockLostError,
  type LockShutdownError,
} from '../../port/lock.errors.js';
import type { LockRequest } from '../request/lock-request.js';
import type { WaitedFor } from '../runtime/forgotten-releases.js';
import type {
  ReleaseRequest,
  ReleaseReply,
  Grant,
  Notification,
  TakeoverNotice,
} from '../../port/lock-store.js';
import { maxNoticeMs } from '../../port/notice-time.js';
import { HandOffBudget } from './hand-off-budget.js';
import { OwnerHolds, type Caller } from './owner-holds.js';
import { Takeover } from './takeover.js';

/**
 * After this many answers in a row that took longer than the lease, the callers are rejected: the next ones would be too slow,
 * too.
 */
const MOST_SLOW_ANSWERS = 3;

/**
 * One process's stay with one key, from joining the store's queue until giving the key up.
 *
 * An owner asks the store on behalf of all callers of its local queue, and makes local hand-offs while these are safe and
 * fair. It ends once and for good. The rules and the failures that they prevent: docs/decisions/0003.
 */
export class Owner {
  readonly key: string;
  readonly id: string;
  private state: State = 'waiting';
  private keeper: LeaseKeeper | undefined;
  private readonly holds: OwnerHolds;
  private readonly acquireLoop: AcquireLoop;
  private readonly budget = new HandOffBudget();
  private slowAnswers = 0;
  /** Another call takes the lock over. It is over with the grace, also if no timer has run by then. */
  takeover: RunningTakeover | undefined;
  private cancelGrace: (() => void) | undefined;
  /** The store has said that the lock was lost before its grant was here. The next grant may be that one, so it must be confirmed. */
  private isGrantInDoubt = false;

  constructor(
    private readonly callers: Callers,
    private readonly request: LockRequest,
    private readonly runtime: LockRuntime,
  ) {
    this.key = request.key;
    this.id = runtime.owners.register(this);
    this.holds = new OwnerHolds(this, runtime);
    const { graceMs } = request;
    const takeover = graceMs === undefined ? undefined : new Takeover(this, graceMs, request, runtime);
    this.acquireLoop = new AcquireLoop(this, request, callers, runtime, takeover);
  }

  get claim(): Claim {
    return this.keeper?.claim ?? this.request.claim;
  }

  get isHeld(): boolean {
    return this.state === 'held';
  }

  get isGranted(): boolean {
    return this.state === 'held' || this.state === 'confirming';
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
    const { keeper } = this;
    if (!keeper) return 0;
    return Math.max(0, Math.min(keeper.lease.measureValidity(at), this.leftOfGrace(at)));
  }

  get leaseMs(): number {
    return this.keeper?.lease.leaseMs ?? this.request.leaseMs;
  }

  // --- acquire --------------------------------------------------------------------------------------------------

  start(): void {
    this.acquireLoop.start();
  }

  /** Sends the next request at once if none is in flight, because a caller cannot wait for the next recheck. */
  askNow(): void {
    if (this.state === 'confirming') this.keeper?.renewNow();
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
        this.isGrantInDoubt ||= this.state === 'waiting';
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
    }
  }

  onGrant(grant: Grant): void {
    // The store repeats the release of an ended owner until no grant of it can be left.
    if (this.state === 'ended') return;
    if (this.state !== 'waiting') return this.onGrantAgain(grant);
    const { acquireLoop } = this;
    acquireLoop.stop();
    const at = this.readClocks();
    const keeper = this.keepLease(this.isGrantInDoubt ? unconfirmed(grant) : grant, at);
    this.isGrantInDoubt = false;
    const { takeover } = this;
    if (takeover && this.leftOfGrace(at) <= 0) {
      this.state = 'confirming';
      return this.onGraceOver(takeover);
    }
    this.onWaitingCount(grant.waiting, acquireLoop.asked.now);
    // Sent before the caller starts, because the caller may block the event loop for longer than the initial lease.
    if (!keeper.lease.isConfirmed) keeper.renewNow();
    this.admit(keeper, at);
    if (takeover && this.isGranted) this.tellTakeover(takeover);
  }

  /** A second grant with the same token confirms the first. Another token means that the first grant was lost in between. */
  private onGrantAgain(grant: Grant): void {
    if (grant.token !== this.keeper?.lease.token) this.onLost('taken', 'it was lost and granted anew');
    else if (grant.confirmed) this.keeper.onGrantedAgain(grant.validUntil);
  }

  private keepLease(grant: Grant, at: ClockReading): LeaseKeeper {
    const { request, runtime, acquireLoop } = this;
    return (this.keeper = new LeaseKeeper(this, grant, at.now, request, runtime, acquireLoop.asked.lead));
  }

  /** Admits a caller if the lease is valid. It is not if the grant took longer than its lease, or must be confirmed first. */
  private admit(keeper: LeaseKeeper, at: ClockReading): void {
    if (keeper.lease.measureValidity(at) > 0) {
      this.slowAnswers = 0;
      return this.admitNext(keeper, at.now);
    }
    this.state = 'confirming';
    if (keeper.lease.isConfirmed) this.onSlowAnswer(keeper.lease.leaseMs);
    if (this.callers.size === 0) this.releaseInBackground();
    else keeper.renewNow();
  }

  onConfirmed(): void {
    const { keeper } = this;
    if (this.state !== 'confirming' || !keeper) return;
    const at = this.readClocks();
    // The first caller has released meanwhile, so that the next one enters by a local hand-off.
    const isHandOff = !keeper.lease.hasAdmittedNobody;
    if (isHandOff && !this.mayHandOff(keeper, at)) this.releaseInBackground();
    else this.admit(keeper, at);
  }

  onUnanswered(error: LockStoreError): void {
    if (this.state !== 'confirming') return;
    this.callers.onStoreError(error);
    this.callers.dismissImpatient(error);
    if (this.callers.size === 0) this.releaseInBackground();
  }

  private onSlowAnswer(leaseMs: number): void {
    const { key, callers } = this;
    this.slowAnswers += 1;
    const message = `Could not acquire "${key}": the store's answer took longer than the lease of ${leaseMs} ms (${this.slowAnswers} in a row). Use a lease longer than a round trip to the store.`;
    const tooSlow = new LockStoreError(message, key, 'unknown');
    if (this.slowAnswers < MOST_SLOW_ANSWERS) callers.dismissImpatient(tooSlow);
    else callers.dismissAll(tooSlow);
  }

  /** Admits the next caller, or all waiting readers. Without any caller the owner releases. */
  private admitNext(keeper: LeaseKeeper, now: number): void {
    const { callers } = this;
    let next = callers.shift();
    if (!next) return this.releaseInBackground();
    this.state = 'held';
    keeper.start();
    if (keeper.lease.hasAdmittedNobody) this.budget.onFirstCaller(now);
    // A depth of 0: an outer call that has the lock would have shared it.
    do next.resolve(new HeldLock([this.holds.admit(next, keeper.lease, now)], 0));
    while (this.isForMany && keeper.lease.hasToken && (next = callers.shift()));
    callers.onServed(this);
  }

  /** A reader has joined the local queue while this owner holds for readers. It is admitted unless the key is contended. */
  admitReaders(): void {
    const { keeper } = this;
    if (!keeper || !this.isHeld || !this.isForMany || this.budget.isRunning) return;
    const at = this.readClocks();
    if (!this.mayHandOff(keeper, at) || keeper.lease.measureValidity(at) <= 0) return;
    keeper.renewIfBlind(at.now);
    this.admitNext(keeper, at.now);
  }

  /** All readers of a process share one lease, if the watchdog renews it. */
  private get isForMany(): boolean {
    const { claim, watched, fair } = this.request;
    return claim.kind === 'shared' && watched && !fair;
  }

  // --- held -----------------------------------------------------------------------------------------------------

  whyInDoubt(at?: ClockReading): string | undefined {
    return this.keeper?.whyInDoubt(at);
  }

  whenSure(): NeverRejects<void> {
    return this.keeper ? (this.keeper.whenSure() as NeverRejects<void>) : arrivedReplies(this.runtime.clock);
  }

  get shutdown(): LockShutdownError | undefined {
    return this.runtime.owners.shutdownErrorOf?.(this.key);
  }

  allHolds(): Iterable<Hold> {
    return this.holds.all();
  }

  describeHolds(now: number, timeOfDay: number): readonly HoldSnapshot[] {
    return this.holds.describe(now, timeOfDay);
  }

  waitedFor(): readonly WaitedFor[] {
    return this.callers.size === 0 ? [] : this.holds.waitedFor(this.now);
  }

  tellShutdown(): void {
    this.holds.tellShutdown();
  }

  noticeExpiry(at?: ClockReading): void {
    const { takeover } = this;
    if (takeover && this.leftOfGrace(at) <= 0) this.onGraceOver(takeover);
    else this.keeper?.noticeExpiry(at);
  }

  async extend(ms: number): Promise<void> {
    await this.keeper?.extend(ms);
  }

  /** The store grants readers beside this owner. Callers that still wait in the local queue need another owner. */
  async downgrade(): Promise<void> {
    const { key, request } = this;
    if (request.claim.kind === 'permits') {
      throw new LockConfigurationError(`"${key}" is held by permits: downgrade() is for exclusive locks.`);
    }
    const stepsDown = this.keeper?.downgrade();
    if (this.claim !== request.claim) this.callers.onOwnerEnded(this);
    await stepsDown;
  }

  afterTurn(task: () => void): void {
    detached(() => nextTurn(this.runtime.clock, task));
  }

  warnOnce(about: string, message: string): void {
    this.runtime.warnOnce(about, message);
  }

  // --- taken over -----------------------------------------------------------------------------------------------

  /**
   * The lease goes on until the work has ended, or the grace is over. Of several takeovers the one whose grace ends first counts.
   * A notice is repeated with what is left of the grace, and does not shorten what the holder was told first: it may be late by as much
   * as a force leaves for it. Two calls of one process have the same name.
   */
  private onTakeover({ graceMs, by }: Notice): void {
    if (this.state === 'ended') return;
    const toldAt = this.readClocks();
    const lateMs = by === this.takeover?.by ? maxNoticeMs(this.runtime.store.commandTimeoutMs) : 0;
    if (graceMs >= this.leftOfGrace(toldAt) - lateMs) return;
    this.dropTakeover();
    const takeover = (this.takeover = { graceMs, by, toldAt });
    this.cancelGrace = this.runtime.clock.after(graceMs, () => this.onGraceOver(takeover));
    // The notice may come before the reply that grants the lock, which waits for replicas, for example.
    if (this.isGranted) this.tellTakeover(takeover);
  }

  private tellTakeover({ graceMs, by }: Notice): void {
    const { key, id: owner, runtime } = this;
    runtime.emit({ type: 'takeover', key, owner, graceMs, by });
    this.holds.tellTakeover();
  }

  private onGraceOver({ graceMs, by }: Notice): void {
    this.onLost('takeover', `${by} has taken it over, and its grace of ${graceMs} ms is over`);
  }

  /** Counts by the time of day, too, as a lease does: the monotonic clock may stand still while the machine is suspended. */
  private leftOfGrace({ now, lead } = this.readClocks()): number {
    if (!this.takeover) return Infinity;
    const { graceMs, toldAt } = this.takeover;
    return graceMs - (now - toldAt.now) - Math.max(0, lead - toldAt.lead);
  }

  private dropTakeover(): void {
    this.takeover = undefined;
    this.cancelGrace?.();
  }

  // --- lost -----------------------------------------------------------------------------------------------------

  /** An owner that has admitted no caller goes back to the store's queue with its ticket. */
  onLost(reason: LockLostError['reason'], detail: string): void {
    const { keeper } = this;
    if (!keeper || !this.isGranted) return;
    // The store still has the lock for one whose grace is over, and the call that takes it over would not tell the same owner again.
    if (keeper.lease.hasAdmittedNobody && reason !== 'takeover') return this.backToQueue(keeper);
    this.end();
    this.holds.lose(reason, detail, keeper.lease.suspendedBy);
    // The rest of a minimum hold must be written while the store still has the lease.
    const isOver = reason === 'expired' && this.holds.minimumUntil <= this.now;
    this.releaseInBackground(isOver ? keeper.marginMs : 0);
  }

  private backToQueue(keeper: LeaseKeeper): void {
    keeper.stop();
    this.dropTakeover();
    this.state = 'waiting';
    this.keeper = undefined;
    this.acquireLoop.start();
  }

  // --- release --------------------------------------------------------------------------------------------------

  /** Ends a hold. After its last one the owner makes a local hand-off, or releases and so leaves the hand-off to the store. */
  release(hold: Hold, isAwaited: boolean, at: ClockReading): NeverRejects<ReleaseReply> {
    const { holds, keeper } = this;
    const isHeard = holds.release(hold, at.now);
    this.budget.count();
    if (holds.size > 0) return RELEASED;
    // A listener of the event may have blocked the event loop since.
    const after = isHeard && this.callers.size > 0 ? this.readClocks() : at;
    if (!keeper || holds.minimumUntil > after.now || !this.mayHandOff(keeper, after))
      return this.releaseInStore(0, isAwaited);
    if (keeper.lease.isConfirmed) {
      keeper.renewIfBlind(after.now);
      this.admitNext(keeper, after.now);
    } else this.state = 'confirming';
    return RELEASED;
  }

  /** A local hand-off needs a lease that is far from its end, a reserved token, and a budget that is not spent. */
  private mayHandOff({ lease, claim }: LeaseKeeper, at: ClockReading): boolean {
    const { watched, fair } = this.request;
    if (this.callers.size === 0 || !watched || fair || claim !== this.request.claim) return false;
    if (this.takeover) return false;
    return !this.budget.isSpent(at.now) && lease.mayHandOff(at);
  }

  onWaitingCount(waiting: number, askedAt: number): void {
    if (!this.startBudget(waiting)) this.budget.clear(askedAt);
  }

  /**
   * Starts the hand-off budget if other owners wait.
   *
   * @param waiting how many owners wait in the store's queue. One of them may be the next one of this local queue.
   */
  private startBudget(waiting: number): boolean {
    if (waiting <= (this.callers.isInStoreQueue ? 1 : 0)) return false;
    const isNews = !this.isContended;
    this.budget.start(this.now);
    if (isNews) this.onContended();
    return true;
  }

  /** A caller of this process begins to wait, and no other waits. */
  onFirstWaiter(): void {
    if (!this.budget.isRunning) this.onContended();
    if (this.waitedFor().length > 0) this.runtime.forgottenReleases.onWaiter();
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

  /** No caller waits any more. An owner that waits, or whose grant is not confirmed, releases. */
  onLastCallerLeft(): void {
    if (this.acquireLoop.isRunning || this.state === 'confirming') this.releaseInBackground();
  }

  /** No caller is left. The owner releases, unless the store cannot have it in its queue. */
  giveUpWaiting(): void {
    if (this.acquireLoop.mayBeQueued) return this.releaseInBackground();
    this.end();
    this.deregister();
  }

  private releaseInBackground(delayMs = 0): void {
    inBackground(this.releaseInStore(delayMs));
  }

  private releaseInStore(delayMs = 0, isAwaited = false): NeverRejects<ReleaseReply> {
    // Built once: a repetition with another last token would let the store give one token out twice.
    const request = this.releaseRequest(isAwaited);
    this.end();
    const released = this.runtime.releases.send(request, delayMs);
    this.deregister();
    return released;
  }

  private releaseRequest(isAwaited: boolean): ReleaseRequest {
    const { key, id: owner, claim, keeper, leaseMs } = this;
    const { minimumUntil: holdUntil } = this.holds;
    const isMinimumOpen = holdUntil > 0 && holdUntil > this.now;
    const whenAwaited = isAwaited ? 'when idle' : undefined;
    return {
      key,
      owner,
      claim,
      leaseMs,
      used: keeper?.lease.used,
      holdUntil: isMinimumOpen ? holdUntil : undefined,
      flush: this.budget.isRunning ? 'now' : whenAwaited,
    };
  }

  private end(): void {
    this.state = 'ended';
    this.acquireLoop.stop();
    this.keeper?.stop();
    this.dropTakeover();
  }

  private deregister(): void {
    this.runtime.owners.deregister(this);
    this.callers.onOwnerEnded(this);
  }
}

/**
 * waiting:    asks the store, or waits in its queue.
 * confirming: granted, but a renewal must be answered before a caller is admitted: too little of the lease is left, the store
 *             asks for a confirmation first, or the first caller has released before the grant was confirmed.
 * held:       a caller holds the lock; several, if they are readers of one process. A grant by notification that came
 *             in time is held at once, and confirmed meanwhile: `Lease.isConfirmed` says so.
 * ended:      for good; an owner id is never used again.
 */
type State = 'waiting' | 'confirming' | 'held' | 'ended';

/** Nobody is admitted under it before a renewal has confirmed it. */
function unconfirmed(grant: Grant): Grant {
  return { ...grant, confirmed: false, validUntil: -Infinity };
}

type Notice = Pick<TakeoverNotice, 'graceMs' | 'by'>;

interface RunningTakeover extends Notice {
  readonly toldAt: ClockReading;
}

/** The callers of one key, as its owners use them. Implemented by `LocalQueue`. */
export interface Callers extends WaitingCallers {
  shift(): (Caller & { resolve(lock: HeldLock): void }) | undefined;
  onServed(owner: Owner): void;
  /** The owner has ended, or no longer holds with the claim of these callers. */
  onOwnerEnded(owner: Owner): void;
}
