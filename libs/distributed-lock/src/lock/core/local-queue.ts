import { type ClockReading, readClocks } from '../../common/clock.js';
import { LinkedQueue, SmallSet } from '../../common/collections.js';
import { onAbort } from '../../common/listeners.js';
import { inBackground } from '../../common/promises.js';
import { isExclusive } from '../../port/lock-store.js';
import type { Busy, Queued } from '../../port/lock-store.js';
import { LockStoreError, LockWaitTimeoutError } from '../../port/lock.errors.js';
import { kindName, type LockRequest, type Terms } from '../request/lock-request.js';
import type { HeldLock } from './held-lock.js';
import type { Hold } from './hold.js';
import type { LockRuntime } from './lock-runtime.js';
import { Owner } from './owner.js';
import { Call, WaitDeadlines } from './wait-deadlines.js';

const NONE: readonly never[] = [];

/**
 * The callers of this process that wait for one key with the same claim and kind of lease, in order of asking.
 *
 * However many they are, one owner asks the store for all of them, and owners that hold make local hand-offs to them.
 * Callers with another lease have a queue of their own, because an owner has one lease. So has each `fair` caller, and each
 * that takes the lock over.
 */
export class LocalQueue {
  /** Set by the acquire loop of the waiting owner. */
  isInStoreQueue = false;
  private readonly waiters = new LinkedQueue<Call>();
  /** Callers whose wait is over. The next answer of the store settles them, and is asked for at once. */
  private readonly needingAnswerNow = new SmallSet<Call>();
  /** Callers with `maxWaiting` that must still learn how many wait before them. They may be refused for that once. */
  private readonly awaitingQueueLength = new SmallSet<Call>();
  private isCounting = false;
  /** Absent while no caller waits that has a reply. */
  private deadlines: WaitDeadlines | undefined;
  /** A caller that is alone before the store's first reply. It waits for that in any case, so its deadline needs no timer. */
  private unwatched: Call | undefined;
  /** The latest deadline so far, callers that have left included. */
  private latestDeadline = -Infinity;
  /** The owner that has admitted no caller yet: it asks the store, waits there, or has its grant confirmed. */
  private waitingOwner: Owner | undefined;
  /** Owners that hold or are about to hold. Several may hold only under a claim that is not exclusive. */
  private readonly holding = new SmallSet<Owner>();
  /** What callers that stop waiting are told. Absent before the first reply that is no grant. */
  private lastAnswer: LastAnswer | undefined;

  readonly key: string;
  /** The terms of the first caller. Their claim, lease and order count for all callers; their waits and minimum hold do not. */
  readonly terms: Terms;
  /** Who asks, if the one caller of this queue takes the lock over. */
  readonly site: LockRequest['site'];

  constructor(
    private readonly runtime: LockRuntime,
    { key, terms, site }: LockRequest,
    /** No caller waits or holds any more. */
    private readonly onIdle: () => void,
  ) {
    this.key = key;
    this.terms = terms;
    this.site = terms.graceMs === undefined ? undefined : site;
  }

  get size(): number {
    return this.waiters.size;
  }

  // --- callers --------------------------------------------------------------------------------------------------

  /**
   * @throws LockWaitTimeoutError, LockStoreError, LockShutdownError, or the reason of the request's signal, which is not
   * aborted yet
   */
  join(number: number, request: LockRequest, holdsOfFlow: readonly Hold[]): Promise<HeldLock> {
    return new Promise((resolve, reject) => {
      const at = readClocks(this.runtime.clock);
      this.enter(new Call(number, request, at.now, holdsOfFlow, resolve, reject), at);
    });
  }

  private enter(call: Call, at: ClockReading): void {
    const { signal, terms } = call.request;
    const { waitMs, maxWaiting, claim } = terms;
    const ahead = this.waitingBefore(terms);
    if (signal) call.stopListening = onAbort(signal, () => this.leave(call, signal.reason));
    this.waiters.push(call);
    this.latestDeadline = Math.max(this.latestDeadline, call.deadline);
    if (waitMs <= 0) this.needingAnswerNow.add(call);
    else if (!this.waitingOwner && this.holding.size === 0) this.unwatched = call;
    else {
      this.watchFirst(call.waitingSince);
      this.watch(call);
    }
    if (waitMs <= 0 && this.canRefuseLocally) return this.refuse(call, this.busyError(terms));
    if (ahead !== undefined && ahead >= maxWaiting) return this.refuse(call, this.busyError(terms, ahead));
    if (waitMs > 0 && maxWaiting < Infinity) this.awaitingQueueLength.add(call);
    if (claim.kind === 'shared' && !this.waitingOwner) for (const owner of this.holding) owner.admitReaders();
    this.startOwner(at);
    if (waitMs <= 0) this.waitingOwner?.askNow();
    else if (this.waiters.size > 1) this.waitingOwner?.acquireLoop.stayInQueue();
    else for (const owner of this.holding) owner.contention.onFirstWaiter();
    this.countOthers();
  }

  /** Rejects the callers whose flow holds no lock. Owners that hold go on. */
  close(error: unknown): void {
    for (const waiter of this.waiters) if (!waiter.isAtWork) this.dismiss(waiter, error);
    this.tellLastCallerLeft();
  }

  /** Called when another caller joins, and when the store replies without a grant: the deadline of the first caller counts, too. */
  watchFirst(now: number): void {
    const { unwatched } = this;
    if (!unwatched) return;
    this.unwatched = undefined;
    if (unwatched.deadline > now) this.watch(unwatched);
    else this.needAnswerNow(unwatched);
  }

  private watch(waiter: Call): void {
    const { deadlines } = this.runtime;
    this.deadlines ??= new WaitDeadlines(deadlines, this.waiters, (late) => this.onLate(late));
    this.deadlines.watch(waiter);
  }

  /** A caller whose wait is over still gets the first answer of the store, as a caller that asks once does. */
  private onLate(waiter: Call): void {
    const isAnswered = this.isAnswered(waiter) || this.isInStoreQueue;
    if (!this.waitingOwner || isAnswered)
      return this.leaveLate(waiter, this.timeoutError(waiter.request.terms));
    this.needAnswerNow(waiter);
    this.waitingOwner.askNow();
  }

  private needAnswerNow(waiter: Call): void {
    this.awaitingQueueLength.delete(waiter);
    this.needingAnswerNow.add(waiter);
  }

  /** Rejects a caller whose wait is over. Its error names the application that holds the lock, if the store tells that soon. */
  private leaveLate(waiter: Call, error: Error): void {
    const { holderDirectory } = this.runtime;
    const { holder } = error as Partial<LockWaitTimeoutError>;
    if (holder === undefined || !holderDirectory.mayKnow(holder)) return this.leave(waiter, error);
    const { key } = this;
    const { waitMs, remainingMs } = error as LockWaitTimeoutError;
    const waitedMs = this.runtime.clock.now() - waiter.waitingSince;
    this.remove(waiter);
    this.tellLastCallerLeft();
    const told = holderDirectory.findSoon(holder).then((heldBy) => {
      this.reject(waiter, new LockWaitTimeoutError(key, waitMs, holder, remainingMs, heldBy), waitedMs);
    });
    inBackground(told, () => undefined);
  }

  private leave(waiter: Call, error: unknown): void {
    this.dismiss(waiter, error);
    this.tellLastCallerLeft();
  }

  /** Dismisses a caller that has just come. Its queue may have no owner: that of a fair caller has no other caller. */
  private refuse(waiter: Call, error: unknown): void {
    this.dismiss(waiter, error);
    this.endIfIdle();
  }

  /** Does nothing for a caller that has left, as by a listener of another caller's event. */
  private dismiss(waiter: Call, error: unknown): void {
    if (!this.waiters.has(waiter)) return;
    this.remove(waiter);
    this.reject(waiter, error, this.runtime.clock.now() - waiter.waitingSince);
  }

  private remove(waiter: Call): void {
    this.waiters.remove(waiter);
    this.onLeft(waiter);
  }

  private reject(waiter: Call, error: unknown, waitedMs: number): void {
    waiter.reject(error);
    this.runtime.emit({ type: 'abandoned', call: waiter.number, key: this.key, waitedMs, error });
  }

  private onLeft(waiter: Call): void {
    waiter.stopListening?.();
    this.needingAnswerNow.delete(waiter);
    this.awaitingQueueLength.delete(waiter);
    if (this.unwatched === waiter) this.unwatched = undefined;
    if (this.waiters.size > 0) return;
    this.latestDeadline = -Infinity;
    this.deadlines?.stop();
    this.deadlines = undefined;
  }

  // --- owners ---------------------------------------------------------------------------------------------------

  shift(): Call | undefined {
    const waiter = this.waiters.shift();
    if (waiter) this.onLeft(waiter);
    return waiter;
  }

  longestWaitMs(enough: number, now: number): number {
    return Math.min(enough, Math.max(0, this.latestDeadline - now));
  }

  onHolder(owner: string | undefined, remainingMs: number, askedAt: number): void {
    const holder = { owner, expiresAt: this.runtime.clock.now() + remainingMs };
    this.lastAnswer = { holder, coversUntil: askedAt };
  }

  onStoreError(error: LockStoreError): void {
    this.lastAnswer = { ...this.lastAnswer, error, coversUntil: this.runtime.clock.now() };
  }

  refuseNeedingAnswerNow(): void {
    for (const waiter of this.callsThatNeedAnswerNow()) {
      const isAnswered = this.isAnswered(waiter);
      if (isAnswered || this.isWaitedFor) this.dismiss(waiter, this.busyError(waiter.request.terms));
    }
  }

  rejectNeedingAnswerNow(error: unknown): void {
    for (const waiter of this.callsThatNeedAnswerNow()) this.dismiss(waiter, error);
  }

  dismissAll(error: unknown): void {
    for (const waiter of this.waiters) this.dismiss(waiter, error);
  }

  /**
   * An owner has admitted callers, and counts as holding from now on. If several owners may hold, another one starts for the
   * callers that still wait.
   */
  onServed(owner: Owner): void {
    if (this.waitingOwner === owner) {
      this.waitingOwner = undefined;
      this.holding.add(owner);
    }
    if (isExclusive(this.terms.claim)) {
      for (const waiter of this.callsThatNeedAnswerNow())
        this.dismiss(waiter, this.busyError(waiter.request.terms));
    }
    this.tellLastCallerLeft();
    this.startOwner();
    this.countOthers();
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
    // The next owner begins without the failure that its predecessor has met.
    if (this.lastAnswer) this.lastAnswer = { ...this.lastAnswer, error: undefined };
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
    if (awaitingQueueLength.size === 0) return undefined;
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
        this.dismiss(waiter, this.busyError(waiter.request.terms, ahead));
        continue;
      }
      if (isDue && kind === 'queued') this.awaitingQueueLength.delete(waiter);
      ahead += 1;
    }
  }

  /** At least how many wait before the next caller; `undefined` while it may be granted at once. */
  private waitingBefore({ fair, maxWaiting }: Terms): number | undefined {
    if (maxWaiting === Infinity) return undefined;
    if (fair) return this.runtime.fairQueues.sizeOf(kindName(this.key, this.terms)) || undefined;
    return this.canRefuseLocally ? this.waiters.size - this.needingAnswerNow.size : undefined;
  }

  /**
   * Learns how many others wait, for the callers that depend on it: by the reply to an acquire request, or by `inspect` while an
   * owner holds and none asks.
   */
  private countOthers(): void {
    if (this.awaitingQueueLength.size === 0 || this.isCounting) return;
    const { granted, runtime } = this;
    if (this.waitingOwner) return this.waitingOwner.askNow();
    const askedAt = runtime.clock.now();
    if (!granted?.contention.isRunning) return this.onOthersCounted({ kind: 'queued' }, askedAt);
    this.isCounting = true;
    const counted = runtime.store.inspect(this.key).then((snapshot) => {
      this.isCounting = false;
      const waiting = snapshot?.pending.length ?? 0;
      if (this.granted === granted) this.onOthersCounted({ kind: 'queued', waiting }, askedAt);
      this.tellLastCallerLeft();
      this.countOthers();
    });
    inBackground(counted, () => (this.isCounting = false));
  }

  // --- answers --------------------------------------------------------------------------------------------------

  /**
   * A caller that asks once can be refused without a request: an owner of this process holds the key alone, or waits for it in
   * the store's queue, and the store has not failed since.
   */
  get canRefuseLocally(): boolean {
    if (isExclusive(this.terms.claim) && this.granted) return true;
    return this.isWaitedFor && this.lastAnswer?.error === undefined;
  }

  /** The store has replied since the caller began to wait. */
  private isAnswered({ waitingSince }: Call): boolean {
    return this.lastAnswer !== undefined && waitingSince <= this.lastAnswer.coversUntil;
  }

  /** The error of a caller whose wait is over, also if the store has not replied since it began to wait. */
  private timeoutError(terms: Terms): Error {
    const { key, lastAnswer } = this;
    const cause = lastAnswer?.error;
    if (!cause && (lastAnswer?.holder || this.granted)) return this.busyError(terms);
    const why = cause?.message ?? 'The store has not answered yet.';
    const message = `Could not acquire "${key}" within ${terms.waitMs} ms. ${why}`;
    return new LockStoreError(message, key, cause?.reason ?? 'unknown', cause && { cause });
  }

  /** @param waiting how many wait ahead of the caller, if it is refused for that */
  private busyError({ waitMs }: Terms, waiting?: number): LockWaitTimeoutError {
    const { key, granted } = this;
    const told = this.lastAnswer?.holder;
    // The store need not have named an owner of this process that holds the lock.
    const holder = granted ? granted.id : told?.owner;
    const remainingMs = granted
      ? granted.validForMs
      : told && Math.max(0, told.expiresAt - this.runtime.clock.now());
    return new LockWaitTimeoutError(key, waitMs, holder, remainingMs, undefined, waiting);
  }

  get mustAskAgain(): boolean {
    return this.allNeedAnswerNow || this.awaitingQueueLength.size > 0;
  }

  /** No caller has time to wait: each asks once, or its wait is over, without an answer yet. */
  private get allNeedAnswerNow(): boolean {
    return this.waiters.size === this.needingAnswerNow.size;
  }

  /** An owner of this queue waits in the store's queue for callers that have time. It is ahead of those that ask once. */
  private get isWaitedFor(): boolean {
    return this.isInStoreQueue && !this.allNeedAnswerNow;
  }

  /** An owner that has the lock. */
  private get granted(): Owner | undefined {
    return this.holding.find(isGranted);
  }

  /** A copy, because a listener of an `abandoned` event may start a new call. */
  private callsThatNeedAnswerNow(): readonly Call[] {
    return this.needingAnswerNow.size === 0 ? NONE : [...this.needingAnswerNow];
  }
}

function isGranted(owner: Owner): boolean {
  return owner.isGranted;
}

/** The last news of the store about one key. */
interface LastAnswer {
  /** Who holds the lock, and until when. Stays when the store fails. */
  readonly holder?: { readonly owner: string | undefined; readonly expiresAt: number };
  /** The store has failed since. */
  readonly error?: LockStoreError | undefined;
  /** It is new enough for callers that wait since this moment, or for less long. */
  readonly coversUntil: number;
}
