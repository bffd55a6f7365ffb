import { AsyncResource } from 'node:async_hooks';
import { type ClockReading, nextTurn, timeOfDay } from '../../common/clock.js';
import { maxOf, minOf } from '../../common/collections.js';
import { BoundController, onAbort } from '../../common/listeners.js';
import { detached } from '../../common/promises.js';
import { inspectByJson } from '../../common/redaction.js';
import { type Claim, modeOf, placeholderOf, type ReleaseReply } from '../../port/lock-store.js';
import { LockConfigurationError, LockLostError, LockNotHeldError } from '../../port/lock.errors.js';
import type { DetachOptions, HoldSnapshot, Lock } from '../lock.js';
import { writeBaton } from '../request/baton.js';
import { CallSite } from '../request/call-site.js';
import { checkOptions } from '../../port/option-checks.js';
import { checkLease } from '../request/lock-options.js';
import type { LockRequest } from '../request/lock-request.js';
import { runHolding } from './async-context.js';
import type { Call } from './call.js';
import { type Release, RELEASED } from './guarded-store.js';
import type { Lease } from './lease.js';
import type { Owner } from './owner.js';
import type { HoldTrace } from './trace-channels.js';

const NOT_HELD: Release = { reply: Promise.resolve('not held') };

/**
 * One caller's part in an owner that has the lock, with a fencing token of its own.
 *
 * Nested calls share the hold. When the last of them ends, the hold goes back to the owner and is never live again.
 */
export class Hold {
  /** The number, as in events, of the call that acquired this hold. */
  readonly call: number;
  readonly site: string | CallSite | undefined;
  /** Whether nested calls may share this hold. If not, they are refused. */
  readonly isReentrant: boolean;
  readonly fencingToken: number;
  /** The end of the minimum hold: no other owner gets the key before this, even if the hold is released sooner. */
  holdUntil = 0;
  /** How many calls share this hold: the one that acquired it, and nested calls that have not ended. */
  calls = 1;
  /** The site of the last nested call, for the warning of `onFirstCallEnds`. */
  private lastSharedBy: string | CallSite | undefined;
  private isReleased = false;
  private loss: LockLostError | undefined;
  private controller: BoundController | undefined;
  private listeners: Set<(loss: LockLostError) => void> | undefined;
  private shutdownController: BoundController | undefined;

  constructor(
    readonly lease: Lease,
    { number, request: { terms, site } }: Call,
    readonly acquiredAt: number,
  ) {
    this.call = number;
    this.site = site;
    this.isReentrant = terms.reentrant;
    this.fencingToken = lease.takeToken();
    this.holdAtLeast(terms.holdAtLeastMs);
  }

  get owner(): Owner {
    return this.lease.owner;
  }

  get key(): string {
    return this.owner.key;
  }

  get claim(): Claim {
    return this.owner.claim;
  }

  /** The line of the `acquire` call, if it was recorded. */
  get acquireSite(): CallSite | undefined {
    const { site } = this;
    return typeof site === 'object' && site.isNoted ? site : undefined;
  }

  get scope(): symbol {
    return this.owner.runtime.scope;
  }

  /** Whether the hold was released, or is known to be lost. Does not check the lease. */
  get isOver(): boolean {
    return this.isReleased || this.loss !== undefined;
  }

  /** Whether the hold is neither released nor lost. Checks the lease itself, because no timer runs while the event loop is blocked. */
  isLive(): boolean {
    return !this.isReleased && this.noticeLoss() === undefined;
  }

  /** Checks the lease, and reports a loss that nobody has noticed yet. @returns the loss, if it came before the release */
  noticeLoss(at?: ClockReading): LockLostError | undefined {
    if (!this.isOver) this.owner.noticeExpiry(at);
    return this.loss;
  }

  isInDoubt(at?: ClockReading): boolean {
    return !this.isOver && this.lease.doubtReason(at) !== undefined;
  }

  /** @throws LockLostError if the lock is lost, and also while it is in doubt */
  assertBelieved(): void {
    const loss = this.noticeLoss();
    if (loss) throw loss;
    const doubt = this.isReleased ? undefined : this.lease.doubtReason();
    if (doubt) throw this.lossError('expired', doubt);
  }

  openSignal(): AbortSignal {
    const loss = this.noticeLoss();
    this.controller ??= new BoundController();
    if (loss) this.controller.abort(loss);
    this.tellTakeover();
    return this.controller.signal;
  }

  /** Aborts `signal` if another call is taking the lock over. The lock stays held until the grace of that takeover ends. */
  tellTakeover(): void {
    const { takeover } = this.owner;
    if (!takeover || this.isOver) return;
    const detail = `${takeover.by} takes it over, and leaves ${takeover.graceMs} ms for the work to end`;
    this.controller?.abort(this.lossError('takeover', detail));
  }

  openShutdownSignal(): AbortSignal {
    this.shutdownController ??= new BoundController();
    this.tellShutdown();
    return this.shutdownController.signal;
  }

  /** Aborts `shutdownSignal` if the service is closing. */
  tellShutdown(): void {
    const shutdown = this.owner.runtime.owners.shutdownErrorOf?.(this.key);
    if (shutdown && !this.isReleased) this.shutdownController?.abort(shutdown);
  }

  /**
   * Calls `listener` when the lock is lost, in the async context in which `onLoss` was called. The listener must not throw. An AbortSignal
   * would do the same, but takes 5 µs to make and to listen to (`npm run bench -- --only http`).
   *
   * @returns a function that stops listening
   */
  onLoss(listener: (loss: LockLostError) => void): () => void {
    const context = new AsyncResource('nestjs-distributed-lock.loss');
    const tell = (loss: LockLostError) => context.runInAsyncScope(listener, undefined, loss);
    const listeners = (this.listeners ??= new Set());
    listeners.add(tell);
    return () => {
      listeners.delete(tell);
    };
  }

  /** Describes the hold for `held()` and for holder entries. */
  describe(): HoldSnapshot {
    const { key, claim, fencingToken, calls } = this;
    const { id: owner, validForMs, leaseMs, now, runtime } = this.owner;
    const heldMs = now - this.acquiredAt;
    const since = new Date(timeOfDay(runtime.clock) - heldMs);
    const site = CallSite.textOf(this.site);
    return { key, mode: modeOf(claim), owner, fencingToken, site, since, heldMs, validForMs, leaseMs, calls };
  }

  /** Gives a nested call a share of this hold. */
  share({ terms, site }: LockRequest): this {
    this.calls += 1;
    this.lastSharedBy = site;
    this.holdAtLeast(terms.holdAtLeastMs);
    return this;
  }

  /** Called when the call that acquired the lock ends. Warns if nested calls still share the hold, because they keep the key locked. */
  onFirstCallEnds(): void {
    if (this.calls <= 1 || this.isOver) return;
    const { clock, events } = this.owner.runtime;
    const warnIfOpen = () => {
      if (this.isOver) return;
      const [outer, nested] = [CallSite.callText(this.site), CallSite.callText(this.lastSharedBy)];
      events.warnOnce(
        `outlived: ${outer}, ${nested}`,
        `"${this.key}" stays locked although ${outer}, which acquired it, has ended: ${nested} shares the lock and still runs. Await it there. If it was not called there, a shared queue or pool has started it in the async context of the other: wrap the task, as in queue.add(AsyncResource.bind(task)), and use reentrant: false.`,
      );
    };
    // Wait for the next turn of the event loop: several calls that return the same stream end in one turn, in any order.
    detached(() => nextTurn(clock, warnIfOpen));
  }

  /** Starts a minimum hold of `ms` now. A nested call may ask for a longer one. */
  private holdAtLeast(ms: number): void {
    if (ms > 0) this.holdUntil = Math.max(this.holdUntil, this.owner.now + ms);
  }

  /**
   * Ends the share of one call. After the last share the owner hands the lock off or releases it.
   *
   * @param isAwaited whether the caller waits for the store's reply
   */
  release(isAwaited = false, at = this.owner.readClocks()): Release {
    this.calls -= 1;
    const loss = this.noticeLoss(at);
    if (this.calls > 0) return loss ? NOT_HELD : RELEASED;
    // Set this before the event: a listener must find this hold no longer live.
    this.isReleased = true;
    if (loss) return NOT_HELD;
    const { owner, call, key, fencingToken, acquiredAt } = this;
    const { runtime, id } = owner;
    const isHeard = runtime.hears('released');
    if (isHeard) {
      const heldMs = at.now - acquiredAt;
      runtime.emit({ type: 'released', call, key, owner: id, fencingToken, heldMs });
    }
    // A listener may have blocked the event loop, so read the clocks again.
    return owner.release(this, isAwaited, isHeard ? owner.readClocks() : at);
  }

  /**
   * Ends this hold, and leaves the lock in the store for another process: a release with a minimum hold, whose rest that process attaches.
   *
   * @returns the baton
   * @throws LockLostError if the store says that the lock was not held any more
   * @throws LockStoreError if the store does not answer
   */
  async detach(leaseMs: number): Promise<string> {
    const { owner, key, claim, fencingToken: token } = this;
    const { store, keyPrefix } = owner.runtime;
    const baton = { store: store.name, keyPrefix, key, claim, owner: owner.id, token };
    this.holdUntil = owner.now + leaseMs;
    const reply = await this.release(true).reply;
    if (reply === 'released') return writeBaton(baton);
    // With `unknown`, a copy of the release whose reply was lost may have detached the lock.
    const found = reply === 'unknown' ? await store.inspect(key) : null;
    if (found?.holders.includes(placeholderOf(owner.id))) return writeBaton(baton);
    throw (
      this.loss ??
      this.lossError('taken', 'the store says that it was not held any more when it was detached')
    );
  }

  /** Releases a hold whose work never began. Its minimum hold is dropped, unless an outer call shares the hold. */
  giveBack(): void {
    if (this.calls === 1) this.holdUntil = 0;
    this.release();
  }

  /** Marks the hold as lost. The owner calls `tellLoss` when all of its holds are marked. */
  lose(reason: LockLostError['reason'], detail: string, cause: Error | undefined): void {
    this.loss = this.lossError(reason, detail, cause);
  }

  tellLoss(): void {
    const { loss: error, call, key, fencingToken, owner } = this;
    if (!error) return;
    this.controller?.abort(error);
    for (const tell of this.listeners ?? []) tell(error);
    owner.runtime.emit({ type: 'lost', call, key, owner: owner.id, fencingToken, error });
  }

  private lossError(reason: LockLostError['reason'], detail: string, cause?: Error): LockLostError {
    const heldMs = this.owner.now - this.acquiredAt;
    return new LockLostError(this.key, heldMs, reason, detail, cause && { cause });
  }
}

/** The `Lock` that a caller gets: its share of the holds of one or several keys. */
export class HeldLock implements Lock {
  /** Set at most once, before the caller gets this lock, and only while somebody subscribes to the channel of holds. */
  trace: HoldTrace | undefined;
  private released: Release | undefined;
  private isDetached = false;
  private outcome: Promise<ReleaseOutcome> | undefined;
  private joined: BoundController | undefined;
  private stopJoining: (() => void) | undefined;

  /**
   * @param holds one or more, in the order in which the caller gave the keys
   * @param depth how many calls around this one share the lock
   */
  constructor(
    readonly holds: readonly Hold[],
    readonly depth: number,
  ) {}

  private get first(): Hold {
    return this.holds[0] as Hold;
  }

  get key(): string {
    return this.first.key;
  }

  get keys(): readonly string[] {
    return this.holds.map((hold) => hold.key);
  }

  get mode(): ReturnType<typeof modeOf> {
    return modeOf(this.first.claim);
  }

  get owner(): string {
    return this.first.owner.id;
  }

  isHeld(): boolean {
    return this.released === undefined && this.holds.every((hold) => hold.isLive());
  }

  /** True while it is not certain whether the lock is lost, for example after the event loop was blocked for long. */
  isInDoubt(at?: ClockReading): boolean {
    return this.holds.some((hold) => hold.isInDoubt(at));
  }

  /** Resolves when `isInDoubt` is false. */
  whenSure(): Promise<unknown> {
    return Promise.all(this.holds.map(({ lease }) => lease.whenSure()));
  }

  /** As `Hold.noticeLoss` does. */
  noticeLoss(at?: ClockReading): LockLostError | undefined {
    for (const hold of this.holds) {
      const loss = hold.noticeLoss(at);
      if (loss) return loss;
    }
    return undefined;
  }

  readClocks(): ClockReading {
    return this.first.owner.readClocks();
  }

  get signal(): AbortSignal {
    if (this.holds.length === 1) return this.first.openSignal();
    const joined = (this.joined ??= this.joinSignals());
    // Every use checks the leases, so that a loss that nobody has noticed yet aborts the signal now.
    const aborted = this.holds.map((hold) => hold.openSignal()).find((signal) => signal.aborted);
    if (aborted) joined.abort(aborted.reason as LockLostError);
    return joined.signal;
  }

  /**
   * Makes a signal that aborts as soon as the signal of one hold aborts. Adds a listener to each, because `AbortSignal.any` leaks: as soon
   * as such a signal has a listener, Node keeps it in memory until it aborts, and most locks are never lost.
   */
  private joinSignals(): BoundController {
    const joined = new BoundController();
    if (this.released !== undefined) return joined;
    const stops = this.holds.map((hold) => {
      const signal = hold.openSignal();
      return onAbort(signal, () => joined.abort(signal.reason as LockLostError));
    });
    this.stopJoining = () => stops.forEach((stop) => stop());
    return joined;
  }

  get shutdownSignal(): AbortSignal {
    return this.first.openShutdownSignal();
  }

  /** Calls `listener` for each hold that is lost, as `Hold.onLoss` does. @returns a function that stops listening */
  onLoss(listener: (loss: LockLostError) => void): () => void {
    const stops = this.holds.map((hold) => hold.onLoss(listener));
    return () => stops.forEach((stop) => stop());
  }

  get contended(): boolean {
    return this.isHeld() && this.holds.some((hold) => hold.owner.contention.isContended);
  }

  get validForMs(): number {
    return this.isHeld() ? minOf(this.holds.map((hold) => hold.owner.validForMs)) : 0;
  }

  get calls(): number {
    return maxOf(this.holds.map((hold) => hold.calls));
  }

  get fencingToken(): number {
    if (this.holds.length === 1) return this.first.fencingToken;
    throw new LockConfigurationError(
      `A lock of ${this.holds.length} keys has a fencing token for each of them: use tokenOf(key).`,
    );
  }

  tokenOf(key: string): number {
    const hold = this.holds.find((it) => it.key === key);
    if (hold) return hold.fencingToken;
    throw new LockNotHeldError(`"${key}" is not one of this lock's keys: ${this.keys.join(', ')}.`, key);
  }

  assertHeld(): void {
    for (const hold of this.holds) hold.assertBelieved();
    if (this.released !== undefined) {
      const how = this.isDetached
        ? 'this lock was detached. Use the one that locks.attach(baton) returns'
        : 'this lock was released';
      throw new LockNotHeldError(`"${this.key}" is not held any more: ${how}.`, this.key);
    }
  }

  async extend(ms: number): Promise<void> {
    checkLease('extend: ms', ms);
    await this.assertSurelyHeld();
    // Before any of the leases is extended.
    for (const { lease } of this.holds) lease.assertFixed();
    await Promise.all(this.holds.map(({ lease }) => lease.extend(ms)));
    this.assertHeld();
  }

  async keepFor(ms: number): Promise<void> {
    checkLease('keepFor: ms', ms);
    await this.assertSurelyHeld();
    for (const { owner } of this.holds) owner.assertUnshared('end its renewals');
    await Promise.all(this.holds.map(({ lease }) => lease.keepFor(ms)));
    this.assertHeld();
  }

  async detach(options: DetachOptions): Promise<string> {
    checkOptions('detach', options, { leaseMs: true });
    const { leaseMs } = options;
    checkLease('detach: leaseMs', leaseMs);
    await this.assertSurelyHeld();
    this.assertDetachable();
    this.isDetached = true;
    this.released = RELEASED;
    this.trace?.end();
    return this.first.detach(leaseMs);
  }

  /** @throws LockConfigurationError, or LockStoreError for a store that cannot pass a lock on */
  private assertDetachable(): void {
    const { key, owner, calls } = this.first;
    owner.runtime.store.assertCan('attach');
    owner.assertUnshared('be detached');
    const why = this.reasonToStay(calls, owner);
    if (why !== undefined) throw new LockConfigurationError(`"${key}" cannot be detached: ${why}.`);
  }

  private reasonToStay(calls: number, owner: Owner): string | undefined {
    if (this.holds.length > 1)
      return `this lock has ${this.holds.length} keys. Acquire each key that is to be passed on by a call of its own`;
    if (this.depth > 0) return 'it is held by a call around this one. Detach the lock of the outermost call';
    if (calls > 1) return `${calls - 1} nested calls share it and have not ended. Await them first`;
    if (owner.hasMinimumHold)
      return 'its minimum hold still runs. Leave out holdAtLeastMs, or wait until it is over';
    return undefined;
  }

  async downgrade(): Promise<void> {
    await this.assertSurelyHeld();
    // Before any of the keys is downgraded.
    for (const { owner } of this.holds) owner.assertNoPermits();
    await Promise.all(this.holds.map((hold) => hold.owner.downgrade()));
    this.assertHeld();
  }

  async run<T>(work: () => T | Promise<T>): Promise<T> {
    await this.assertSurelyHeld();
    return runHolding(this, () => work());
  }

  release(): Promise<ReleaseOutcome> {
    return (this.outcome ??= outcomeOf(this.releaseOnce(true).reply));
  }

  releaseInBackground(at?: ClockReading): void {
    this.releaseOnce(false, at);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release().then(() => undefined);
  }

  /** For logs: leaves out the service and the store. Does not check the lease. */
  toJSON(): object {
    const { key, keys, mode } = this;
    const fencingTokens = Object.fromEntries(this.holds.map((hold) => [hold.key, hold.fencingToken]));
    return { key, keys, mode, fencingTokens, isReleased: this.released !== undefined };
  }

  private async assertSurelyHeld(): Promise<void> {
    if (this.isInDoubt()) await this.whenSure();
    this.assertHeld();
  }

  private releaseOnce(isAwaited: boolean, at = this.readClocks()): Release {
    if (this.released) return this.released;
    const isSure = !this.isInDoubt(at);
    // Set this before any event is emitted: a listener may release the lock again, which must not give a second share back.
    this.released = RELEASED;
    if (this.depth === 0) for (const hold of this.holds) hold.onFirstCallEnds();
    if (isSure && this.holds.length === 1) {
      this.released = this.first.release(isAwaited, at);
      this.trace?.end();
      return this.released;
    }
    // Outside of any async context: otherwise the promise would keep the caller's context in memory, as long as this lock is reachable.
    const reply = detached(() =>
      isSure ? this.releaseAll(isAwaited, at) : this.whenSure().then(() => this.releaseAll(isAwaited)),
    );
    return (this.released = { reply });
  }

  /** Releases all keys at the same time, so that a caller that waits for one of them need not wait for the others. */
  private releaseAll(isAwaited: boolean, at?: ClockReading): Promise<ReleaseReply> {
    const worst = (replies: readonly ReleaseReply[]) =>
      (['not held', 'unknown'] as const).find((reply) => replies.includes(reply)) ?? 'released';
    const released = this.holds.map((hold) => hold.release(isAwaited, at).reply);
    this.trace?.end();
    // An outer call may hold one of the keys for long. Remove our listeners from the signal of that hold, or they would stay as long.
    this.stopJoining?.();
    return Promise.all(released).then(worst);
  }
}

type ReleaseOutcome = Awaited<ReturnType<Lock['release']>>;

function outcomeOf(reply: Promise<ReleaseReply>): Promise<ReleaseOutcome> {
  // A local hand-off needs no new promise.
  if (reply === RELEASED.reply) return RELEASED.reply;
  return reply.then((it) => (it === 'not held' ? 'lost' : it));
}

inspectByJson(HeldLock, 'Lock');
