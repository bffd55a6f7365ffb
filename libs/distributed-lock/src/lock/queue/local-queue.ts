import { isExclusive } from '../../port/claim.js';
import { WaitDeadlines } from './wait-deadlines.js';
import { Few } from '../../collections/few.js';
import { LinkedQueue } from '../../collections/linked-queue.js';
import type { Hold } from '../context/hold.js';
import type { LockRuntime } from '../lock-runtime.js';
import { LockStoreError, LockWaitTimeoutError } from '../../port/lock.errors.js';
import type { LockRequest } from '../request/lock-request.js';
import type { Owner } from '../owner/owner.js';
import type { OwnerRegistry } from '../owner/owner-registry.js';
import { Waiter } from './waiter.js';

const NOBODY: readonly Waiter[] = [];

/**
 * The callers of this process that wait for one key with the same claim and kind of lease, in order of asking.
 *
 * However many they are, one tenure asks the store for all of them, and those that hold pass the lock on to them.
 * Callers with another lease stand in a line of their own, since a lease is what the store counts down; so do `fair`
 * callers, each alone.
 */
export class LocalQueue {
  private readonly waiters = new LinkedQueue<Waiter>();
  /** Those that do not wait, or no longer: the next answer is theirs. */
  private readonly impatient = new Few<Waiter>();
  /** While somebody waits. */
  private deadlines: WaitDeadlines | undefined;
  /** The one that asks for those who wait. */
  private waitingOwner: Owner | undefined;
  /** Those that callers are inside of, or may be at once; several mostly where several may hold. */
  private readonly holding = new Few<Owner>();
  /** As last seen, also by a tenure before: a busy key is not the fault of a store that has not answered yet. */
  private holder: { readonly owner: string | undefined; readonly until: number } | undefined;
  private storeError: LockStoreError | undefined;
  /** Callers that had come by then have had an answer. */
  private answeredFor = -Infinity;

  constructor(
    private readonly core: LockRuntime,
    private readonly owners: OwnerRegistry,
    private readonly sample: LockRequest,
    /** Nobody waits and nobody holds: this line may be forgotten. */
    private readonly onIdle: () => void,
  ) {}

  get key(): string {
    return this.sample.key;
  }

  get size(): number {
    return this.waiters.size;
  }

  /** @throws LockWaitTimeoutError, LockStoreError, LockShutdownError, or the reason of the request's signal, which is not aborted yet */
  join(request: LockRequest): Promise<Hold> {
    const call = this.core.nextCall();
    this.core.emit({ type: 'asked', call, key: this.key });
    return new Promise((resolve, reject) => {
      const waiter = new Waiter(request, call, this.core.clock, resolve, reject, this);
      this.waiters.push(waiter);
      if (request.waitMs > 0) this.watch(waiter);
      else if (this.isOutOfReach) return this.dismiss(waiter, this.waitTimeout(request));
      else this.impatient.add(waiter);
      if (!this.waitingOwner) this.joinReaders();
      this.startOwner();
    });
  }

  /** Takes in a tenure that is asked for together with other keys, for a caller that does not stand here. */
  adopt(tenure: Owner): void {
    this.holding.add(tenure);
  }

  /** The next caller, which no longer waits. */
  shift(): Waiter | undefined {
    const waiter = this.waiters.shift();
    if (waiter) this.onLeft(waiter);
    return waiter;
  }

  /** For how long callers may wait here, in ms; anything from `enough` on is as good as `enough`. */
  longestWaitMs(enough: number): number {
    const latest = this.deadlines?.latest ?? -Infinity;
    return Math.min(enough, Math.max(0, latest - this.core.clock.now()));
  }

  /** Of those that the store counts in line, the one that asks for this very line is no reason to hurry. */
  othersOf(waiting: number): number {
    return this.waitingOwner?.isQueued ? waiting - 1 : waiting;
  }

  onHolder(owner: string | undefined, remainingMs: number, askedAt: number): void {
    this.holder = { owner, until: this.core.clock.now() + remainingMs };
    this.answeredFor = askedAt;
    this.storeError = undefined;
  }

  onStoreError(error: LockStoreError): void {
    this.answeredFor = this.core.clock.now();
    this.storeError = error;
  }

  /** Callers that do not wait, or no longer, are told that the key is busy: the store was asked after they had come. */
  refuseImpatient(): void {
    const isInLine = this.waitingOwner?.isQueued;
    for (const waiter of this.impatientNow()) {
      if (isInLine || waiter.waitingSince <= this.answeredFor)
        this.dismiss(waiter, this.waitTimeout(waiter.request));
    }
  }

  /** The same callers are told that the store failed, or is too slow. */
  dismissImpatient(error: unknown): void {
    for (const waiter of this.impatientNow()) this.dismiss(waiter, error);
  }

  dismissAll(error: unknown): void {
    for (const waiter of this.waiters) this.dismiss(waiter, error);
  }

  /** One caller gives up: its time is over, or its signal has aborted, which then gives the reason. */
  leave(waiter: Waiter, error: unknown = this.timeout(waiter.request)): void {
    this.dismiss(waiter, error);
    this.tellNobodyWaits();
  }

  /** Nobody is served any more; what is held stays held. */
  close(error: unknown): void {
    this.dismissAll(error);
    this.tellNobodyWaits();
  }

  /** It has let callers in: where others may hold beside them, the next ones are asked for. */
  onServed(tenure: Owner): void {
    if (this.waitingOwner === tenure) {
      this.waitingOwner = undefined;
      this.holding.add(tenure);
    }
    if (isExclusive(this.sample.claim)) {
      for (const waiter of this.impatientNow()) this.dismiss(waiter, this.waitTimeout(waiter.request));
    }
    this.tellNobodyWaits();
    this.startOwner();
  }

  /** It ended, or no longer holds as this line asks for. */
  onOwnerEnded(tenure: Owner): void {
    if (this.waitingOwner === tenure) this.waitingOwner = undefined;
    else if (!this.holding.delete(tenure)) return;
    this.startOwner();
    if (!this.waitingOwner && this.holding.size === 0) this.onIdle();
  }

  /**
   * That a caller which does not wait cannot have the key is known without asking: it is held here, or the store has
   * others in line before it. Not while an answer is under way, nor after one that did not come.
   */
  get isOutOfReach(): boolean {
    if (isExclusive(this.sample.claim) && this.granted) return true;
    return this.storeError === undefined && (this.waitingOwner?.isQueued ?? false);
  }

  /** Nobody else need ask now: one does already, or will pass the lock on. */
  private get isTaken(): boolean {
    return this.waitingOwner !== undefined || (isExclusive(this.sample.claim) && this.granted !== undefined);
  }

  /** One that holds. What is asked for together with other keys may not be granted yet. */
  private get granted(): Owner | undefined {
    for (const tenure of this.holding) if (tenure.isGranted) return tenure;
    return undefined;
  }

  private watch(waiter: Waiter): void {
    this.deadlines ??= new WaitDeadlines(this.core.deadlines, this.waiters, (late) => this.onLate(late));
    this.deadlines.watch(waiter);
  }

  /** As they are now: a listener that is told of one may ask anew. */
  private impatientNow(): readonly Waiter[] {
    return this.impatient.size === 0 ? NOBODY : Array.from(this.impatient);
  }

  /** However short its time was, the first answer counts for it, as for callers that ask once. */
  private onLate(waiter: Waiter): void {
    const isAnswered = waiter.waitingSince <= this.answeredFor || this.waitingOwner?.isQueued;
    if (this.waitingOwner && !isAnswered) this.impatient.add(waiter);
    else this.leave(waiter);
  }

  private onLeft(waiter: Waiter): void {
    waiter.settle();
    this.impatient.delete(waiter);
    if (this.waiters.size > 0) return;
    this.deadlines?.stop();
    this.deadlines = undefined;
  }

  /** Readers enter beside those of their process that are inside. */
  private joinReaders(): void {
    for (const tenure of this.holding) tenure.admitReaders();
  }

  private startOwner(): void {
    if (this.waiters.size === 0 || this.isTaken) return;
    this.storeError = undefined;
    this.waitingOwner = this.owners.open(this, this.sample);
    this.waitingOwner.start();
  }

  private tellNobodyWaits(): void {
    if (this.waiters.size > 0) return;
    this.waitingOwner?.onNoCallers();
    for (const tenure of this.holding) tenure.onNoCallers();
  }

  private dismiss(waiter: Waiter, error: unknown): void {
    this.waiters.remove(waiter);
    this.onLeft(waiter);
    waiter.reject(error);
    const { call } = waiter;
    const waitedMs = this.core.clock.now() - waiter.waitingSince;
    this.core.emit({ type: 'abandoned', call, key: this.key, waitedMs, error });
  }

  private timeout(request: LockRequest): Error {
    const { storeError: cause, key } = this;
    if (!cause && this.holderNow()) return this.waitTimeout(request);
    const why = cause?.message ?? 'The store has not answered yet.';
    const message = `Could not acquire "${key}" within ${request.waitMs} ms. ${why}`;
    return new LockStoreError(message, key, cause?.reason ?? 'unknown', cause && { cause });
  }

  private waitTimeout(request: LockRequest): LockWaitTimeoutError {
    const holder = this.holderNow();
    return new LockWaitTimeoutError(this.key, request.waitMs, holder?.owner, holder?.remainingMs);
  }

  /** Who is in the way: a caller of this process, or whom the store has named. */
  private holderNow(): { readonly owner: string | undefined; readonly remainingMs: number } | undefined {
    const { granted, holder } = this;
    if (granted) return { owner: granted.id, remainingMs: granted.validForMs };
    return holder && { owner: holder.owner, remainingMs: Math.max(0, holder.until - this.core.clock.now()) };
  }
}
