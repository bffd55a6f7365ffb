import { isAlone } from './claim.js';
import { Deadlines } from './deadlines.js';
import { Few } from './few.js';
import { Fifo } from './fifo.js';
import type { Hold } from './hold.js';
import type { LockCore } from './lock-core.js';
import { LockStoreError, LockWaitTimeoutError } from './lock.errors.js';
import type { LockRequest } from './lock-request.js';
import type { Tenure } from './tenure.js';
import type { Tenures } from './tenures.js';
import { Waiter } from './waiter.js';

/**
 * The callers of this process that wait for one key with the same claim and kind of lease, in order of asking.
 *
 * However many they are, one tenure asks the store for all of them, and those that hold pass the lock on to them.
 * Callers with another lease stand in a line of their own, since a lease is what the store counts down; so do `fair`
 * callers, each alone.
 */
export class LocalLine {
  private readonly waiters = new Fifo<Waiter>();
  /** While somebody waits. */
  private deadlines: Deadlines | undefined;
  /** The one that asks for those who wait. */
  private asking: Tenure | undefined;
  /** Those that callers are inside of; several only where several may hold. */
  private readonly holding = new Few<Tenure>();
  /** As last seen, also by a tenure before: a busy key is not the fault of a store that has not answered yet. */
  private holder: { readonly owner: string | undefined; readonly until: number } | undefined;
  private storeError: LockStoreError | undefined;

  constructor(
    private readonly core: LockCore,
    private readonly tenures: Tenures,
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
    if (request.waitMs === 0 && this.hasNoChance) return Promise.reject(this.waitTimeout(request));
    const call = this.core.nextCall();
    this.core.emit({ type: 'asked', call, key: this.key });
    return new Promise((resolve, reject) => {
      const waiter = new Waiter(request, call, this.core.clock, resolve, reject, this);
      this.waiters.push(waiter);
      this.deadlines ??= new Deadlines(this.core.alarm, this.waiters, (late) => this.leave(late));
      this.deadlines.watch(waiter);
      if (!this.asking) this.joinReaders();
      this.ask();
    });
  }

  /** Takes in a tenure that was granted without having asked for this line, for a caller that waits here. */
  adopt(tenure: Tenure): void {
    this.holding.add(tenure);
  }

  /** The next caller, which no longer waits. */
  shift(): Waiter | undefined {
    const waiter = this.waiters.shift();
    waiter?.settle();
    this.onLeft();
    return waiter;
  }

  /** How long the most patient caller still waits, in ms; anything from `enough` on is as good as `enough`. */
  longestWaitMs(enough: number): number {
    const now = this.core.clock.now();
    let longest = 0;
    for (const waiter of this.waiters) {
      longest = Math.max(longest, waiter.deadline - now);
      if (longest >= enough) return enough;
    }
    return longest;
  }

  /** Of those that the store counts in line, the one that asks for this very line is no reason to hurry. */
  othersOf(waiting: number): number {
    return this.asking?.isInLine ? waiting - 1 : waiting;
  }

  onHolder(owner: string | undefined, remainingMs: number): void {
    this.holder = { owner, until: this.core.clock.now() + remainingMs };
    this.storeError = undefined;
  }

  onStoreError(error: LockStoreError): void {
    this.storeError = error;
  }

  /** Callers that do not wait are told that the key is busy, or that the store failed. */
  dismissImpatient(error?: unknown): void {
    for (const waiter of this.waiters) {
      if (waiter.request.waitMs === 0) this.dismiss(waiter, error ?? this.waitTimeout(waiter.request));
    }
  }

  dismissAll(error: unknown): void {
    for (const waiter of this.waiters) this.dismiss(waiter, error);
  }

  /** The time of one caller is over: by `waitMs`, or by its signal, which then gives the reason. */
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
  onServed(tenure: Tenure): void {
    if (this.asking === tenure) {
      this.asking = undefined;
      this.holding.add(tenure);
    }
    this.tellNobodyWaits();
    this.ask();
  }

  /** It ended, or no longer holds as this line asks for. */
  onTenureEnded(tenure: Tenure): void {
    if (this.asking === tenure) this.asking = undefined;
    else if (!this.holding.delete(tenure)) return;
    this.ask();
    if (!this.asking && this.holding.size === 0) this.onIdle();
  }

  /** Whoever does not wait: others are before it in line, or, of those who hold alone, before it here. */
  private get hasNoChance(): boolean {
    return isAlone(this.sample.claim) ? this.isTaken : (this.asking?.isInLine ?? false);
  }

  /** Nobody else need ask now: one does already, or will pass the lock on. */
  private get isTaken(): boolean {
    return this.asking !== undefined || (isAlone(this.sample.claim) && this.holding.size > 0);
  }

  private onLeft(): void {
    if (this.waiters.size > 0) return;
    this.deadlines?.stop();
    this.deadlines = undefined;
  }

  /** Readers enter beside those of their process that are inside. */
  private joinReaders(): void {
    for (const tenure of this.holding) tenure.letJoin();
  }

  private ask(): void {
    if (this.waiters.size === 0 || this.isTaken) return;
    this.storeError = undefined;
    this.asking = this.tenures.open(this, this.sample);
    this.asking.start();
  }

  private tellNobodyWaits(): void {
    if (this.waiters.size > 0) return;
    this.asking?.onNobodyWaits();
    for (const tenure of this.holding) tenure.onNobodyWaits();
  }

  private dismiss(waiter: Waiter, error: unknown): void {
    this.waiters.remove(waiter);
    waiter.settle();
    this.onLeft();
    waiter.reject(error);
    const { call } = waiter;
    const waitedMs = this.core.clock.now() - waiter.askedAt;
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
    const { holding, holder } = this;
    for (const tenure of holding) return { owner: tenure.owner, remainingMs: tenure.validForMs };
    return holder && { owner: holder.owner, remainingMs: Math.max(0, holder.until - this.core.clock.now()) };
  }
}
