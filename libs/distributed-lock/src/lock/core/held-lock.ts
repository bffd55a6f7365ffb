import type { ClockReading } from '../../common/clock.js';
import { onAbort } from '../../common/listeners.js';
import { detached, type NeverRejects } from '../../common/promises.js';
import { type LockMode, modeOf, type ReleaseReply } from '../../port/lock-store.js';
import { RELEASED, type Release } from './guarded-store.js';
import { LockConfigurationError, LockNotHeldError, type LockLostError } from '../../port/lock.errors.js';
import { inspectByJson } from '../../common/redaction.js';
import { checkLease } from '../request/lock-options.js';
import type { Lock } from '../lock.js';
import { runHolding } from './async-context.js';
import { type Hold, LossController } from './hold.js';
import { minOf } from '../../common/collections.js';

/** The `Lock` that a caller gets: its share of the holds of one or several keys. */
export class HeldLock implements Lock {
  private released: Release | undefined;
  private outcome: Promise<ReleaseOutcome> | undefined;
  private joined: LossController | undefined;
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

  get mode(): LockMode {
    return modeOf(this.first.claim);
  }

  isHeld(): boolean {
    return this.released === undefined && this.holds.every((hold) => hold.isLive());
  }

  /**
   * True while it is not certain whether the lock is lost, for example after the event loop was blocked for long. Await `whenSure` to find
   * out.
   */
  isInDoubt(at?: ClockReading): boolean {
    return this.holds.some((hold) => hold.isInDoubt(at));
  }

  whenSure(): NeverRejects<void> {
    return Promise.all(this.holds.map((hold) => hold.owner.whenSure())).then(
      () => undefined,
    ) as NeverRejects<void>;
  }

  /** @returns the loss, if the lock was lost before its release. Checks the leases, so it finds a loss that nobody has noticed yet. */
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
  private joinSignals(): LossController {
    const joined = new LossController();
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
    if (!this.isHeld()) return 0;
    return minOf(this.holds.map((hold) => hold.owner.validForMs));
  }

  get calls(): number {
    return this.holds.reduce((most, { calls }) => Math.max(most, calls), 0);
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
      throw new LockNotHeldError(`"${this.key}" is not held any more: this lock was released.`, this.key);
    }
  }

  async extend(ms: number): Promise<void> {
    checkLease('ms', ms);
    await this.assertSurelyHeld();
    await Promise.all(this.holds.map(async ({ owner }) => owner.lease?.extend(ms)));
    this.assertHeld();
  }

  async downgrade(): Promise<void> {
    await this.assertSurelyHeld();
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

  /**
   * What a log shows of this lock: only strings, numbers and booleans, so that no service or store is printed. Does not check the lease.
   */
  toJSON(): object {
    const { key, keys, mode } = this;
    const fencingTokens = Object.fromEntries(this.holds.map((hold) => [hold.key, hold.fencingToken]));
    return { key, keys, mode, fencingTokens, isReleased: this.released !== undefined };
  }

  /** Throws as `assertHeld` does. While the lease is in doubt, it waits for `whenSure` first. */
  private async assertSurelyHeld(): Promise<void> {
    if (this.isInDoubt()) await this.whenSure();
    this.assertHeld();
  }

  private releaseOnce(isAwaited: boolean, at = this.readClocks()): Release {
    if (this.released) return this.released;
    const isSure = !this.isInDoubt(at);
    // Marks the lock as released before any event is emitted: a listener may release it again, which must not give a second share back.
    this.released = RELEASED;
    if (this.depth === 0) for (const hold of this.holds) hold.onFirstCallEnds();
    if (isSure && this.holds.length === 1) return (this.released = this.first.release(isAwaited, at));
    // Create the promise outside of any async context. Otherwise it would keep the caller's context in memory for as long as this lock is
    // reachable.
    const reply = detached(() =>
      isSure ? this.releaseAll(isAwaited, at) : this.whenSure().then(() => this.releaseAll(isAwaited)),
    ) as NeverRejects<ReleaseReply>;
    return (this.released = { reply });
  }

  /** Releases all keys at the same time, so that a caller that waits for one of them need not wait for the others. */
  private releaseAll(isAwaited: boolean, at?: ClockReading): Promise<ReleaseReply> {
    const worst = (replies: readonly ReleaseReply[]) =>
      replies.find((r) => r === 'not held') ?? replies.find((r) => r === 'unknown') ?? 'released';
    const released = this.holds.map((hold) => hold.release(isAwaited, at).reply);
    // If this was a nested call, the outer call may hold a key for long. Remove the listeners from its signal, or they would stay as long.
    this.stopJoining?.();
    return Promise.all(released).then(worst);
  }
}

type ReleaseOutcome = Awaited<ReturnType<Lock['release']>>;

/**
 * Turns the store's reply into the result of `release()`. After a local hand-off the reply is the constant `RELEASED.reply`, which is
 * returned without a new promise.
 */
function outcomeOf(reply: NeverRejects<ReleaseReply>): Promise<ReleaseOutcome> {
  if (reply === RELEASED.reply) return RELEASED.reply as NeverRejects<'released'>;
  return reply.then((it) => (it === 'not held' ? 'lost' : it));
}

inspectByJson(HeldLock, 'Lock');
