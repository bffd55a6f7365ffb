import type { ClockReading } from '../../common/clock.js';
import { maxOf, minOf } from '../../common/collections.js';
import { BoundController, onAbort } from '../../common/listeners.js';
import { withoutContext } from '../../common/promises.js';
import { inspectByJson } from '../../common/redaction.js';
import { modeOf } from '../../port/lock-store.js';
import { LockConfigurationError, type LockLostError, LockNotHeldError } from '../../port/lock.errors.js';
import { checkOptions } from '../../port/option-checks.js';
import type { DetachOptions, Lock } from '../lock.js';
import { checkLease } from '../request/lock-options.js';
import { runHolding } from './async-context.js';
import { type Release, RELEASED, type ReleaseOutcome } from './guarded-store.js';
import type { Hold } from './hold.js';
import type { Owner } from './owner.js';
import type { HoldTrace } from './trace-channels.js';

/** The `Lock` that a caller gets: its share of the holds of one or several keys. */
export class HeldLock implements Lock {
  /** Set at most once, before the caller gets this lock, and only while somebody subscribes to the channel of holds. */
  trace: HoldTrace | undefined;
  private released: Release | undefined;
  private isDetached = false;
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
    await this.settleDoubt();
    this.assertHeld();
    // Before any of the leases is extended.
    for (const { lease } of this.holds) lease.assertFixed();
    await Promise.all(this.holds.map(({ lease }) => lease.extend(ms)));
    this.assertHeld();
  }

  async keepFor(ms: number): Promise<void> {
    checkLease('keepFor: ms', ms);
    await this.settleDoubt();
    this.assertHeld();
    for (const { owner } of this.holds) assertUnshared(owner, 'end its renewals');
    await Promise.all(this.holds.map(({ lease }) => lease.keepFor(ms)));
    this.assertHeld();
  }

  async detach(options: DetachOptions): Promise<string> {
    checkOptions('detach', options, { leaseMs: true });
    const { leaseMs } = options;
    checkLease('detach: leaseMs', leaseMs);
    await this.settleDoubt();
    this.assertHeld();
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
    assertUnshared(owner, 'be detached');
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
    await this.settleDoubt();
    this.assertHeld();
    // Before any of the keys is downgraded.
    for (const { owner } of this.holds) assertNoPermits(owner);
    await Promise.all(this.holds.map((hold) => hold.owner.downgrade()));
    this.assertHeld();
  }

  async run<T>(work: () => T | Promise<T>): Promise<T> {
    await this.settleDoubt();
    this.assertHeld();
    return runHolding(this, () => work());
  }

  release(): Promise<ReleaseOutcome> {
    return this.releaseOnce(true).outcome;
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

  /**
   * Resolves when it is certain whether the lock is lost. After it call `assertHeld`, and act in the same turn: whoever calls this may
   * release the lock without awaiting it, and then the owner may have passed the lock on to another caller.
   */
  private settleDoubt(): Promise<unknown> | undefined {
    return this.isInDoubt() ? this.whenSure() : undefined;
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
    const outcome = withoutContext(() =>
      isSure ? this.releaseAll(isAwaited, at) : this.whenSure().then(() => this.releaseAll(isAwaited)),
    );
    return (this.released = { outcome });
  }

  /** Releases all keys at the same time, so that a caller that waits for one of them need not wait for the others. */
  private releaseAll(isAwaited: boolean, at?: ClockReading): Promise<ReleaseOutcome> {
    const worst = (outcomes: readonly ReleaseOutcome[]) =>
      (['lost', 'unknown'] as const).find((outcome) => outcomes.includes(outcome)) ?? 'released';
    const released = this.holds.map((hold) => hold.release(isAwaited, at).outcome);
    this.trace?.end();
    // An outer call may hold one of the keys for long. Remove our listeners from the signal of that hold, or they would stay as long.
    this.stopJoining?.();
    return Promise.all(released).then(worst);
  }
}

inspectByJson(HeldLock, 'Lock');

/** @throws LockConfigurationError for a lock of permits, which cannot be downgraded */
function assertNoPermits({ key, terms }: Owner): void {
  if (terms.claim.kind !== 'permits') return;
  throw new LockConfigurationError(`"${key}" is held by permits: downgrade() is for exclusive locks.`);
}

/** @throws LockConfigurationError if other readers of this process share the lease */
function assertUnshared({ key, holds }: Owner, what: string): void {
  if (holds.size <= 1) return;
  throw new LockConfigurationError(
    `"${key}" cannot ${what}: ${holds.size - 1} other readers of this process share its lease. Acquire it with fair: true, and it has a lease of its own.`,
  );
}
