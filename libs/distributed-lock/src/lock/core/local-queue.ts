import { AsyncResource } from 'node:async_hooks';
import { type ClockReading, readClocks } from '../../common/clock.js';
import { LinkedQueue, SmallSet } from '../../common/collections.js';
import { onAbort } from '../../common/listeners.js';
import { ignoreFailure } from '../../common/promises.js';
import { type Busy, isExclusive, type Queued } from '../../port/lock-store.js';
import type { LockStoreError } from '../../port/lock.errors.js';
import type { LockRequest, Terms } from '../request/lock-request.js';
import { Call } from './call.js';
import type { HeldLock } from './held-lock.js';
import type { Hold } from './hold.js';
import type { LockRuntime } from './lock-runtime.js';
import { Owner } from './owner.js';
import { PlacesInLine } from './places-in-line.js';
import { Refusals } from './refusals.js';

const NONE: readonly never[] = [];

/**
 * The callers of this process that wait for one key with the same claim and kind of lease, in order of asking.
 *
 * 1. A call joins. If it must not wait and the lock is known to be taken, or if too many wait already, it is refused without a request.
 * 2. If no owner of this queue is asking the store, the queue creates one. For an exclusive claim, it creates none while an owner of
 *    the queue has the lock, either. One owner asks on behalf of all callers.
 * 3. The owner that is granted the lock takes callers from the front: the first one now, the next ones by local hand-offs.
 * 4. When that owner ends and callers still wait, the queue creates the next owner.
 * 5. A caller leaves early if its signal aborts, its `waitMs` is over or the store refuses it. With the last caller, an owner that has
 *    not been used yet releases.
 * 6. The queue is dropped as soon as it has neither callers nor owners.
 *
 * Callers with another lease have a queue of their own, because an owner has one lease. So has each `fair` caller, and each call that
 * takes the lock over.
 */
export class LocalQueue {
  private readonly calls = new LinkedQueue<Call>();
  /**
   * Callers that the store's next answer settles, because they passed `waitMs: 0` or their `waitMs` ran out before the store's first
   * reply. The others are patient: they may wait for longer.
   */
  private readonly needingAnswerNow = new SmallSet<Call>();
  /** The owner that has not admitted a caller yet. */
  waitingOwner: Owner | undefined;
  /** Owners that have admitted callers and have not ended. Several only if the claim is not exclusive. */
  private readonly holding = new SmallSet<Owner>();
  private readonly refusals: Refusals;
  private places: PlacesInLine | undefined;

  readonly key: string;
  /** The terms of the first caller. The others have the same claim and lease, but may differ in the rest. */
  readonly terms: Terms;
  /** If the caller of this queue takes the lock over, the site of that caller. The holder is notified with this name. */
  readonly site: LockRequest['site'];
  /** Set if the only caller of this queue goes on with a detached lock. */
  readonly detached: LockRequest['detached'];

  constructor(
    private readonly runtime: LockRuntime,
    { key, terms, site, detached }: LockRequest,
    /** Called when the queue has neither callers nor owners left. */
    private readonly onIdle: () => void,
  ) {
    this.key = key;
    this.terms = terms;
    this.detached = detached;
    this.site = terms.graceMs === undefined ? undefined : site;
    this.refusals = new Refusals(this, runtime);
  }

  get size(): number {
    return this.calls.size;
  }

  /** How many callers may wait for longer than until the store's next answer. */
  get patientSize(): number {
    return this.calls.size - this.needingAnswerNow.size;
  }

  *patientCalls(): Generator<Call, void> {
    for (const call of this.calls) if (!this.needingAnswerNow.has(call)) yield call;
  }

  // --- callers --------------------------------------------------------------------------------------------------

  /**
   * Enqueues a call, whose signal has not aborted yet. Resolves when an owner admits it.
   *
   * @throws LockWaitTimeoutError, LockStoreError, LockShutdownError, or the reason of the request's signal if it aborts
   */
  join(number: number, request: LockRequest, holdsOfFlow: readonly Hold[]): Promise<HeldLock> {
    const call = new Call(this, number, request);
    const at = readClocks(this.runtime.clock);
    call.waitingSince = at.now;
    call.holdsOfFlow = holdsOfFlow;
    const { onQueued, key, signal, terms } = request;
    if (onQueued) {
      const tell = AsyncResource.bind((position: number) => onQueued(position, key));
      call.place = { tell, position: undefined };
    }
    if (signal) call.stopListening = onAbort(signal, () => this.leave(call, signal.reason));
    if (terms.waitMs > 0) this.enter(call, at);
    else this.enterForOneAnswer(call, at);
    return call.lock;
  }

  private enter(call: Call, at: ClockReading): void {
    const { maxWaiting } = call.request.terms;
    const isCounted = maxWaiting < Infinity || call.place !== undefined;
    const places = isCounted ? (this.places ??= new PlacesInLine(this, this.runtime)) : this.places;
    const ahead = maxWaiting < Infinity ? places?.aheadOf(call.request.terms) : undefined;
    this.calls.push(call);
    this.runtime.deadlines.watch(call);
    if (ahead !== undefined && ahead >= maxWaiting) return this.refuseAtOnce(call, ahead);
    if (isCounted) places?.add(call);
    this.admitOrAsk(at);
    if (this.calls.size === 1) for (const owner of this.holding) owner.contention.onFirstWaiter();
    places?.count();
    if (this.mustWait) places?.tellLast(call);
  }

  /** For `waitMs: 0`: refuses the call if the lock is known to be taken, and asks the store otherwise. */
  private enterForOneAnswer(call: Call, at: ClockReading): void {
    this.calls.push(call);
    this.needingAnswerNow.add(call);
    if (this.canRefuseLocally) return this.refuseAtOnce(call);
    this.admitOrAsk(at);
    this.waitingOwner?.askNow();
    this.places?.count();
  }

  private admitOrAsk(at: ClockReading): void {
    const isForReaders = this.terms.claim.kind === 'shared';
    if (isForReaders && !this.waitingOwner) for (const owner of this.holding) owner.admitReaders();
    this.startOwner(at);
  }

  /** Rejects a call that has just joined. If the queue was created for that call, it is dropped again. */
  private refuseAtOnce(call: Call, ahead?: number): void {
    this.refuse(call, ahead);
    this.endIfIdle();
  }

  /** Rejects the waiting callers, except those whose flow holds a lock. Owners that hold go on. */
  close(error: unknown): void {
    for (const call of this.calls) if (!call.isAtWork) this.dismiss(call, error);
    this.endUnusedOwners();
  }

  /** Called when the `waitMs` of a caller has run out. If the store has not answered this caller yet, the caller waits for one answer. */
  onLate(call: Call): void {
    const isAnswered = this.refusals.isAnswered(call) || this.isInStoreQueue;
    if (!this.waitingOwner || isAnswered) return this.leaveLate(call);
    this.places?.remove(call);
    this.needingAnswerNow.add(call);
    this.waitingOwner.askNow();
  }

  /**
   * Rejects a caller whose `waitMs` is over. The error names the application that holds the lock, if the store can tell within
   * `NAME_WITHIN_MS`.
   */
  private leaveLate(call: Call): void {
    const error = this.refusals.timeoutError(call);
    const naming = this.refusals.nameHolder(error);
    if (!naming) return this.leave(call, error);
    const waitedMs = this.runtime.clock.now() - call.waitingSince;
    this.remove(call);
    this.endUnusedOwners();
    ignoreFailure(naming.then((named) => this.reject(call, named, waitedMs)));
  }

  private leave(call: Call, error: unknown): void {
    this.dismiss(call, error);
    this.endUnusedOwners();
  }

  /** Rejects a waiting caller because the lock is taken. @param ahead how many wait ahead of it, if `maxWaiting` is the reason */
  refuse(call: Call, ahead?: number): void {
    this.dismiss(call, this.refusals.busyError(call, ahead));
  }

  /** Rejects a waiting caller. Does nothing if it has left already: a listener of another caller's event may have aborted it. */
  private dismiss(call: Call, error: unknown): void {
    if (!this.calls.has(call)) return;
    this.remove(call);
    this.reject(call, error, this.runtime.clock.now() - call.waitingSince);
  }

  private reject(call: Call, error: unknown, waitedMs: number): void {
    call.reject(error);
    this.runtime.emit({ type: 'abandoned', call: call.number, key: this.key, waitedMs, error });
  }

  private remove(call: Call): void {
    this.calls.remove(call);
    call.stopListening?.();
    this.needingAnswerNow.delete(call);
    this.places?.remove(call);
    this.runtime.deadlines.unwatch(call);
  }

  // --- replies of the store -------------------------------------------------------------------------------------

  /** The store has replied that others hold the lock or wait for it. */
  onHolder(owner: string | undefined, remainingMs: number, askedAt: number): void {
    this.refusals.onHolder(owner, remainingMs, askedAt);
  }

  /** The store could not be reached or did not answer. */
  onStoreError(error: LockStoreError): void {
    this.refusals.onFailure(error);
  }

  /** Refuses the callers that the present reply answers. */
  refuseNeedingAnswerNow(): void {
    for (const call of this.callsNeedingAnswerNow())
      if (this.refusals.isAnswered(call) || this.isWaitedFor) this.refuse(call);
  }

  rejectNeedingAnswerNow(error: unknown): void {
    for (const call of this.callsNeedingAnswerNow()) this.dismiss(call, error);
  }

  dismissAll(error: unknown): void {
    for (const call of this.calls) this.dismiss(call, error);
  }

  /** `maxWaiting` of the next request; `undefined` if no caller needs to know how many wait. */
  get maxWaiting(): number | undefined {
    return this.places?.maxWaiting;
  }

  onCounted(reply: Busy | Queued, askedAt: number): void {
    this.places?.onCounted(reply, askedAt);
  }

  /** The store has put an owner of this queue into its own. @param others how many owners wait there, if the reply tells it */
  onQueued(others: number | undefined): void {
    this.places?.onQueued(others);
  }

  // --- owners ---------------------------------------------------------------------------------------------------

  /** Takes the next caller out of the queue, for the owner that admits it. */
  shift(): Call | undefined {
    const call = this.calls.shift();
    if (call) this.remove(call);
    return call;
  }

  /** Called when an owner has admitted callers: it counts as holding from now on. */
  onServed(owner: Owner): void {
    this.refusals.onGrant();
    if (this.waitingOwner === owner) {
      this.waitingOwner = undefined;
      this.holding.add(owner);
    }
    if (isExclusive(this.terms.claim)) for (const call of this.callsNeedingAnswerNow()) this.refuse(call);
    const { places } = this;
    places?.onGrant();
    this.endUnusedOwners();
    this.startOwner();
    places?.count();
    if (this.mustWait) places?.tellAll();
  }

  onOwnerEnded(owner: Owner): void {
    if (this.waitingOwner === owner) this.waitingOwner = undefined;
    else if (!this.holding.delete(owner)) return;
    this.startOwner();
    this.endIfIdle();
  }

  private endIfIdle(): void {
    if (!this.waitingOwner && this.holding.size === 0 && this.calls.size === 0) this.onIdle();
  }

  private startOwner(at?: ClockReading): void {
    const isTaken = this.waitingOwner || (isExclusive(this.terms.claim) && this.holdingOwner);
    if (this.calls.size === 0 || isTaken) return;
    this.waitingOwner = new Owner(this, this.runtime);
    this.waitingOwner.acquireLoop.start(at);
  }

  /** Called when callers have left. Ends the owners that nobody uses or waits for. */
  endUnusedOwners(): void {
    if (this.calls.size > 0) return;
    this.waitingOwner?.endIfUnused();
    for (const owner of this.holding) owner.endIfUnused();
  }

  // --- who holds and who waits ----------------------------------------------------------------------------------

  /** An owner of this queue under which a caller holds the lock. */
  get holdingOwner(): Owner | undefined {
    return this.holding.find(hasLease);
  }

  /** Whether an owner of this queue waits in the store's queue. */
  get isInStoreQueue(): boolean {
    return this.waitingOwner?.acquireLoop.isQueued ?? false;
  }

  /** Whether a call with `waitMs: 0` can be refused without asking the store. */
  get canRefuseLocally(): boolean {
    if (isExclusive(this.terms.claim) && this.holdingOwner) return true;
    return this.isWaitedFor && !this.refusals.isStoreFailing;
  }

  /**
   * Whether callers are left that a `queued` reply does not answer: they need an answer now and joined after its request was sent, or it
   * did not count how many wait ahead of them.
   */
  get mustAskAgain(): boolean {
    return !this.mayWait || this.places?.mustCount === true;
  }

  /** Whether any caller still has time. The others are settled by the next answer of the store. */
  get mayWait(): boolean {
    return this.patientSize > 0;
  }

  /** Whether all callers of this queue wait, because one of its owners has the lock or is in the store's queue. */
  private get mustWait(): boolean {
    return this.isInStoreQueue || (isExclusive(this.terms.claim) && this.holdingOwner !== undefined);
  }

  /** Whether an owner waits in the store's queue for callers that still have time. A call with `waitMs: 0` may not overtake it. */
  private get isWaitedFor(): boolean {
    return this.isInStoreQueue && this.mayWait;
  }

  /** A copy, because a listener of an `abandoned` event may start a new call while the caller of this method iterates. */
  private callsNeedingAnswerNow(): readonly Call[] {
    return this.needingAnswerNow.size === 0 ? NONE : [...this.needingAnswerNow];
  }
}

function hasLease({ lease }: Owner): boolean {
  return lease !== undefined;
}
