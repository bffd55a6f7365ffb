import { AsyncResource } from 'node:async_hooks';
import { type ClockReading, readClocks } from '../../common/clock.js';
import { LinkedQueue, SmallSet } from '../../common/collections.js';
import { onAbort } from '../../common/listeners.js';
import { ignoreFailure, inBackground } from '../../common/promises.js';
import { type Busy, isExclusive, type Queued } from '../../port/lock-store.js';
import { LockStoreError, LockWaitTimeoutError } from '../../port/lock.errors.js';
import { kindName, type LockRequest, type Terms } from '../request/lock-request.js';
import { Call } from './call.js';
import type { HeldLock } from './held-lock.js';
import type { Hold } from './hold.js';
import type { LockRuntime } from './lock-runtime.js';
import { Owner } from './owner.js';

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
  /** Whether an owner of this queue has a ticket in the store's queue. Only its acquire loop changes this. */
  isInStoreQueue = false;
  private readonly waiters = new LinkedQueue<Call>();
  /**
   * Callers that the store's next answer settles, because they passed `waitMs: 0` or their `waitMs` ran out before the store's first
   * reply.
   */
  private readonly needingAnswerNow = new SmallSet<Call>();
  /**
   * Callers with `maxWaiting` that do not know yet how many wait ahead of them. As soon as they know, they are refused, or they wait
   * and are never refused for this reason again.
   */
  private readonly awaitingQueueLength = new SmallSet<Call>();
  /** Callers with `onQueued` that do not know their place in line yet. */
  private readonly awaitingPlace = new SmallSet<Call>();
  /** How many other owners wait in the store's queue, by the last reply that told it; 0 since this process had the lock. */
  private othersAhead = 0;
  private isCounting = false;
  /** The owner that has not admitted a caller yet. */
  private waitingOwner: Owner | undefined;
  /** Owners that have admitted callers and have not ended. Several only if the claim is not exclusive. */
  private readonly holding = new SmallSet<Owner>();
  /** The store's last answer, for the errors of callers that stop waiting. Absent before the first reply that is not a grant. */
  private lastAnswer: LastAnswer | undefined;

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
  }

  get size(): number {
    return this.waiters.size;
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
    const { onQueued, key } = request;
    if (onQueued) {
      const tell = AsyncResource.bind((position: number) => onQueued(position, key));
      call.place = { tell, position: undefined };
    }
    this.enter(call, at);
    return call.lock;
  }

  private enter(call: Call, at: ClockReading): void {
    const { signal, terms } = call.request;
    const { waitMs, maxWaiting, claim } = terms;
    const ahead = this.waitingBefore(terms);
    if (signal) call.stopListening = onAbort(signal, () => this.leave(call, signal.reason));
    this.waiters.push(call);
    if (waitMs > 0) this.runtime.deadlines.watch(call);
    else this.needingAnswerNow.add(call);
    if (waitMs <= 0 && this.canRefuseLocally) return this.refuse(call, this.busyError(call));
    if (ahead !== undefined && ahead >= maxWaiting) return this.refuse(call, this.busyError(call, ahead));
    if (waitMs > 0 && maxWaiting < Infinity) this.awaitingQueueLength.add(call);
    if (waitMs > 0 && call.place) this.awaitingPlace.add(call);
    if (claim.kind === 'shared' && !this.waitingOwner) for (const owner of this.holding) owner.admitReaders();
    this.startOwner(at);
    if (waitMs <= 0) this.waitingOwner?.askNow();
    else if (this.waiters.size === 1) for (const owner of this.holding) owner.contention.onFirstWaiter();
    this.countOthers();
    if (this.awaitingPlace.has(call) && this.mustWait) this.tellPlace(call, this.lastPosition);
  }

  /** Rejects the waiting callers, except those whose flow holds a lock. Owners that hold go on. */
  close(error: unknown): void {
    for (const waiter of this.waiters) if (!waiter.isAtWork) this.dismiss(waiter, error);
    this.tellLastCallerLeft();
  }

  /** Called when the `waitMs` of a caller has run out. If the store has not answered this caller yet, the caller waits for one answer. */
  onLate(waiter: Call): void {
    const isAnswered = this.isAnswered(waiter) || this.isInStoreQueue;
    if (!this.waitingOwner || isAnswered) return this.leaveLate(waiter, this.timeoutError(waiter));
    this.awaitingQueueLength.delete(waiter);
    this.awaitingPlace.delete(waiter);
    this.needingAnswerNow.add(waiter);
    this.waitingOwner.askNow();
  }

  /**
   * Rejects a caller whose `waitMs` is over. The error names the application that holds the lock, if the store can tell within
   * `NAME_WITHIN_MS`.
   */
  private leaveLate(waiter: Call, error: Error): void {
    const { holderDirectory } = this.runtime;
    const { holder } = error as Partial<LockWaitTimeoutError>;
    if (holder === undefined || !holderDirectory.mayKnow(holder)) return this.leave(waiter, error);
    const { key } = this;
    const { waitMs, remainingMs, position } = error as LockWaitTimeoutError;
    const waitedMs = this.runtime.clock.now() - waiter.waitingSince;
    this.remove(waiter);
    this.tellLastCallerLeft();
    const told = holderDirectory.findSoon(holder).then((heldBy) => {
      const busy = new LockWaitTimeoutError(key, waitMs, holder, remainingMs, heldBy, undefined, position);
      this.reject(waiter, busy, waitedMs);
    });
    ignoreFailure(told);
  }

  private leave(waiter: Call, error: unknown): void {
    this.dismiss(waiter, error);
    this.tellLastCallerLeft();
  }

  /** Rejects a call that has just joined. If the queue was created for that call, it is dropped again. */
  private refuse(waiter: Call, error: unknown): void {
    this.dismiss(waiter, error);
    this.endIfIdle();
  }

  /** Rejects a waiting caller. Does nothing if it has left already: a listener of another caller's event may have aborted it. */
  private dismiss(waiter: Call, error: unknown): void {
    if (!this.waiters.has(waiter)) return;
    this.remove(waiter);
    this.reject(waiter, error, this.runtime.clock.now() - waiter.waitingSince);
  }

  private reject(waiter: Call, error: unknown, waitedMs: number): void {
    waiter.reject(error);
    this.runtime.emit({ type: 'abandoned', call: waiter.number, key: this.key, waitedMs, error });
  }

  private remove(waiter: Call): void {
    this.waiters.remove(waiter);
    waiter.stopListening?.();
    this.needingAnswerNow.delete(waiter);
    this.awaitingQueueLength.delete(waiter);
    this.awaitingPlace.delete(waiter);
    this.runtime.deadlines.unwatch(waiter);
  }

  // --- owners ---------------------------------------------------------------------------------------------------

  shift(): Call | undefined {
    const waiter = this.waiters.shift();
    if (waiter) this.remove(waiter);
    return waiter;
  }

  onHolder(owner: string | undefined, remainingMs: number, askedAt: number): void {
    const holder = { owner, expiresAt: this.runtime.clock.now() + remainingMs };
    this.lastAnswer = { holder, coversUntil: askedAt };
  }

  onStoreError(error: LockStoreError): void {
    this.lastAnswer = { ...this.lastAnswer, error, coversUntil: this.runtime.clock.now() };
  }

  refuseNeedingAnswerNow(): void {
    for (const waiter of this.callsThatNeedAnswerNow())
      if (this.isAnswered(waiter) || this.isWaitedFor) this.dismiss(waiter, this.busyError(waiter));
  }

  rejectNeedingAnswerNow(error: unknown): void {
    for (const waiter of this.callsThatNeedAnswerNow()) this.dismiss(waiter, error);
  }

  dismissAll(error: unknown): void {
    for (const waiter of this.waiters) this.dismiss(waiter, error);
  }

  /** Called when an owner has admitted callers: it counts as holding from now on. */
  onServed(owner: Owner): void {
    // The store has answered since it failed.
    if (this.lastAnswer?.error) this.lastAnswer = { ...this.lastAnswer, error: undefined };
    if (this.waitingOwner === owner) {
      this.waitingOwner = undefined;
      this.holding.add(owner);
    }
    if (isExclusive(this.terms.claim))
      for (const waiter of this.callsThatNeedAnswerNow()) this.dismiss(waiter, this.busyError(waiter));
    this.othersAhead = 0;
    this.tellLastCallerLeft();
    this.startOwner();
    this.countOthers();
    if (this.mustWait) this.tellPlaces();
  }

  onOwnerEnded(owner: Owner): void {
    if (this.waitingOwner === owner) this.waitingOwner = undefined;
    else if (!this.holding.delete(owner)) return;
    this.startOwner();
    this.endIfIdle();
  }

  private endIfIdle(): void {
    if (!this.waitingOwner && this.holding.size === 0 && this.waiters.size === 0) this.onIdle();
  }

  private startOwner(at?: ClockReading): void {
    const isTaken = this.waitingOwner || (isExclusive(this.terms.claim) && this.granted);
    if (this.waiters.size === 0 || isTaken) return;
    this.waitingOwner = new Owner(this, this.runtime);
    this.waitingOwner.acquireLoop.start(at);
  }

  private tellLastCallerLeft(): void {
    if (this.waiters.size > 0) return;
    this.waitingOwner?.onLastCallerLeft();
    for (const owner of this.holding) owner.onLastCallerLeft();
  }

  // --- how many wait ----------------------------------------------------------------------------------------------

  get maxWaiting(): number | undefined {
    const { awaitingQueueLength, needingAnswerNow, waiters } = this;
    if (awaitingQueueLength.size === 0) return this.awaitingPlace.size > 0 ? Infinity : undefined;
    if (awaitingQueueLength.size + needingAnswerNow.size < waiters.size) return Infinity;
    let most = 0;
    for (const { request } of awaitingQueueLength) most = Math.max(most, request.terms.maxWaiting);
    return most;
  }

  onOthersCounted({ kind, waiting = 0 }: Pick<Queued | Busy, 'kind' | 'waiting'>, askedAt: number): void {
    if (this.awaitingQueueLength.size === 0) return;
    let ahead = waiting;
    for (const waiter of this.waiters) {
      if (this.needingAnswerNow.has(waiter)) continue;
      const isDue = this.awaitingQueueLength.has(waiter) && waiter.waitingSince <= askedAt;
      if (isDue && ahead >= waiter.request.terms.maxWaiting) {
        this.dismiss(waiter, this.busyError(waiter, ahead));
        continue;
      }
      if (isDue && kind === 'queued') this.awaitingQueueLength.delete(waiter);
      ahead += 1;
    }
  }

  /** Called when the store has put an owner of this queue into its own. @param others how many owners wait there, if the reply tells it */
  onQueued(others = this.othersAhead): void {
    this.othersAhead = others;
    this.tellPlaces();
  }

  /** Calls the `onQueued` of callers that do not know their place in line yet. */
  private tellPlaces(): void {
    if (this.awaitingPlace.size === 0) return;
    let position = this.othersAhead;
    for (const waiter of this.waiters) {
      if (this.needingAnswerNow.has(waiter)) continue;
      position += 1;
      this.tellPlace(waiter, position);
    }
  }

  /** Does nothing for a caller that may still be refused because of `maxWaiting`. */
  private tellPlace(call: Call, position: number): void {
    const { place } = call;
    if (!place || this.awaitingQueueLength.has(call) || !this.awaitingPlace.delete(call)) return;
    place.position = position;
    this.runtime.events.tell(() => place.tell(position));
  }

  /** The place in line of the caller that has joined last. */
  private get lastPosition(): number {
    return this.othersAhead + this.waiters.size - this.needingAnswerNow.size;
  }

  /** Whether all callers of this queue wait, because one of its owners has the lock or is in the store's queue. */
  private get mustWait(): boolean {
    return this.isInStoreQueue || (isExclusive(this.terms.claim) && this.granted !== undefined);
  }

  /**
   * A lower bound of how many wait ahead of a call that joins now, for `maxWaiting`; `undefined` if the store must be asked first, because
   * it may grant the lock at once.
   */
  private waitingBefore({ fair, maxWaiting }: Terms): number | undefined {
    if (maxWaiting === Infinity) return undefined;
    if (fair) return this.runtime.fairQueues.get(kindName(this.key, this.terms))?.length;
    return this.canRefuseLocally ? this.waiters.size - this.needingAnswerNow.size : undefined;
  }

  /**
   * Finds out how many other owners wait, for callers with `maxWaiting`: with the next request of the owner that asks for the lock, or by
   * `inspect` if an owner has the lock and none asks.
   */
  private countOthers(): void {
    if (this.awaitingQueueLength.size === 0 || this.isCounting) return;
    const { granted, runtime } = this;
    if (this.waitingOwner) return this.waitingOwner.askNow();
    const askedAt = runtime.clock.now();
    if (!granted?.contention.hasWaitingOwners) return this.onOthersCounted({ kind: 'queued' }, askedAt);
    this.isCounting = true;
    const counted = runtime.store.inspect(this.key).then((snapshot) => {
      this.isCounting = false;
      const waiting = snapshot?.pending.length ?? 0;
      if (this.granted === granted) {
        this.onOthersCounted({ kind: 'queued', waiting }, askedAt);
        this.tellPlaces();
      }
      this.tellLastCallerLeft();
      this.countOthers();
    });
    inBackground(counted, () => (this.isCounting = false));
  }

  // --- answers --------------------------------------------------------------------------------------------------

  /** Whether a call with `waitMs: 0` can be refused without asking the store. */
  get canRefuseLocally(): boolean {
    if (isExclusive(this.terms.claim) && this.granted) return true;
    return this.isWaitedFor && this.lastAnswer?.error === undefined;
  }

  private isAnswered({ waitingSince }: Call): boolean {
    return this.lastAnswer !== undefined && waitingSince <= this.lastAnswer.coversUntil;
  }

  /** A `LockStoreError` if the store has failed since its last reply, or has not replied and no owner of this queue has the lock. */
  private timeoutError(call: Call): Error {
    const { key, lastAnswer } = this;
    const cause = lastAnswer?.error;
    if (!cause && (lastAnswer?.holder || this.granted)) return this.busyError(call);
    const why = cause?.message ?? 'The store has not answered yet.';
    const message = `Could not acquire "${key}" within ${call.request.terms.waitMs} ms. ${why}`;
    return new LockStoreError(message, key, cause?.reason ?? 'unknown', cause && { cause });
  }

  /** @param waiting how many wait ahead of the caller, if `maxWaiting` is the reason for the refusal */
  private busyError({ request, place }: Call, waiting?: number): LockWaitTimeoutError {
    const { key, granted } = this;
    const { waitMs } = request.terms;
    const position = place?.position;
    const told = this.lastAnswer?.holder;
    // If an owner of this queue has the lock, its id and validity are newer than what the store last replied.
    const holder = granted ? granted.id : told?.owner;
    const remainingMs = granted
      ? granted.validForMs
      : told && Math.max(0, told.expiresAt - this.runtime.clock.now());
    return new LockWaitTimeoutError(key, waitMs, holder, remainingMs, undefined, waiting, position);
  }

  get mustAskAgain(): boolean {
    return !this.mayWait || this.awaitingQueueLength.size > 0;
  }

  /** Whether any caller still has time. The others are settled by the next answer of the store. */
  get mayWait(): boolean {
    return this.waiters.size > this.needingAnswerNow.size;
  }

  /** Whether an owner waits in the store's queue for callers that still have time. A call with `waitMs: 0` may not overtake it. */
  private get isWaitedFor(): boolean {
    return this.isInStoreQueue && this.mayWait;
  }

  /** An owner of this queue that has the lock. */
  private get granted(): Owner | undefined {
    return this.holding.find(isGranted);
  }

  /** A copy, because a listener of an `abandoned` event may start a new call while the caller of this method iterates. */
  private callsThatNeedAnswerNow(): readonly Call[] {
    return this.needingAnswerNow.size === 0 ? NONE : [...this.needingAnswerNow];
  }
}

function isGranted({ lease }: Owner): boolean {
  return lease !== undefined;
}

/** The last reply of the store about the key that was not a grant, or its last failure. */
interface LastAnswer {
  /** From the last reply. A later failure of the store does not clear it. */
  readonly holder?: { readonly owner: string | undefined; readonly expiresAt: number };
  /** Set if the store has failed since then. */
  readonly error?: LockStoreError | undefined;
  /**
   * The answer counts for callers that began to wait at this time or earlier: when the request of the reply was sent, or when the store
   * failed.
   */
  readonly coversUntil: number;
}
