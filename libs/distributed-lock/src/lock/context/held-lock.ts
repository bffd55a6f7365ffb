import { bindListeners } from '../../async/bound-listeners.js';
import { modeOf, type LockMode } from '../../port/claim.js';
import type { Hold } from './hold.js';
import { inBackground, type Owned } from '../../async/in-background.js';
import { LockConfigurationError, LockNotHeldError, type LockLostError } from '../../port/lock.errors.js';
import { inspectByJson } from '../../printing/inspect-by-json.js';
import { checkLease } from '../request/lock-options.js';
import type { ReleaseReply } from '../../port/lock-store.js';
import type { Lock } from '../lock.js';
import { outside } from '../../async/outside.js';
import { runHolding } from './async-context.js';

type ReleaseOutcome = Awaited<ReturnType<Lock['release']>>;

const NONE: readonly Hold[] = [];

/** The `Lock` that callers get: one share of one or several holds. */
export class HeldLock implements Lock {
  private ended: Owned<ReleaseReply> | undefined;
  private outcome: Promise<ReleaseOutcome> | undefined;
  private joined: AbortSignal | undefined;

  /**
   * In the order of the keys as given. The first is a field of its own, as it mostly is the only one: an array that lives
   * as long as a lock may be allocated as if it lived for ever, and V8 then copies all that hangs on it.
   */
  constructor(
    private readonly first: Hold,
    private readonly others: readonly Hold[] = NONE,
  ) {}

  get key(): string {
    return this.first.key;
  }

  get keys(): readonly string[] {
    return this.holds.map((hold) => hold.key);
  }

  get holds(): readonly Hold[] {
    return [this.first, ...this.others];
  }

  find(isIt: (hold: Hold) => boolean): Hold | undefined {
    return isIt(this.first) ? this.first : this.others.find(isIt);
  }

  get mode(): LockMode {
    return modeOf(this.first.claim);
  }

  get isHeld(): boolean {
    return this.ended === undefined && !this.find((hold) => !hold.isLive);
  }

  /** Whether it was lost is better asked when `whenSure` has resolved: after a long block of the event loop, or a suspend. */
  get isInDoubt(): boolean {
    return this.first.isInDoubt || this.others.some((hold) => hold.isInDoubt);
  }

  whenSure(): Owned<void> {
    return Promise.all(this.holds.map((hold) => hold.whenSure())).then(() => undefined) as Owned<void>;
  }

  /** Why it was lost before the release, if it was. */
  get loss(): LockLostError | undefined {
    return this.find((hold) => hold.loss !== undefined)?.loss;
  }

  get signal(): AbortSignal {
    if (this.others.length === 0) return this.first.signal;
    // Each is asked, so that a loss that nobody has noticed yet shows here, too.
    const signals = this.holds.map((hold) => hold.signal);
    return (this.joined ??= bindListeners(AbortSignal.any(signals)));
  }

  /** All of its holds are told at once. */
  get shutdownSignal(): AbortSignal {
    return this.first.shutdownSignal;
  }

  /** As `Hold.onLoss`, for each of its holds. @returns stops listening */
  onLoss(listener: () => void): () => void {
    const undos = this.holds.map((hold) => hold.onLoss(listener));
    return () => undos.forEach((undo) => undo());
  }

  get validForMs(): number {
    if (this.ended !== undefined) return 0;
    return this.holds.reduce((least, hold) => Math.min(least, hold.validForMs), Infinity);
  }

  get fencingToken(): number {
    if (this.others.length === 0) return this.first.fencingToken;
    throw new LockConfigurationError(
      `A lock of ${this.holds.length} keys has a fencing token for each of them: use tokenOf(key).`,
    );
  }

  tokenOf(key: string): number {
    const hold = this.find((h) => h.key === key);
    if (hold) return hold.fencingToken;
    throw new LockNotHeldError(`"${key}" is not one of this lock's keys: ${this.keys.join(', ')}.`, key);
  }

  assertHeld(): void {
    for (const hold of this.holds) hold.assertBelieved();
    if (this.ended !== undefined) {
      throw new LockNotHeldError(`"${this.key}" is not held any more: this lock was released.`, this.key);
    }
  }

  async extend(ms: number): Promise<void> {
    checkLease('ms', ms);
    await this.assertSurelyHeld();
    await Promise.all(this.holds.map((hold) => hold.owner.extend(ms)));
    this.assertHeld();
  }

  async downgrade(): Promise<void> {
    await this.assertSurelyHeld();
    await Promise.all(this.holds.map((hold) => hold.owner.downgrade()));
    this.assertHeld();
  }

  async run<T>(work: () => T | Promise<T>): Promise<T> {
    if (this.isInDoubt) await this.whenSure();
    this.assertHeld();
    return runHolding(this, work);
  }

  /** As `assertHeld`, but asks the store first when the clock was set or the machine has slept. */
  private async assertSurelyHeld(): Promise<void> {
    if (this.isInDoubt) await this.whenSure();
    this.assertHeld();
  }

  release(): Promise<ReleaseOutcome> {
    return (this.outcome ??= this.end(true).then((reply) => (reply === 'not held' ? 'lost' : reply)));
  }

  /** As `release`, for who does not wait for the outcome. */
  giveBack(): void {
    inBackground(this.end(false));
  }

  private end(isAwaited: boolean): Owned<ReleaseReply> {
    return (this.ended ??= outside(() =>
      this.isInDoubt ? this.endWhenSure(isAwaited) : this.endNow(isAwaited),
    ));
  }

  private endWhenSure(isAwaited: boolean): Owned<ReleaseReply> {
    return this.whenSure().then(() => this.endNow(isAwaited)) as Owned<ReleaseReply>;
  }

  private endNow(isAwaited: boolean): Owned<ReleaseReply> {
    return this.others.length === 0 ? this.first.release(isAwaited) : this.releaseAll(isAwaited);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release().then(() => undefined);
  }

  /** For logs. Asks nothing that could find out a loss, and leads to nothing else. */
  toJSON(): object {
    const { key, keys, mode } = this;
    const fencingTokens = Object.fromEntries(this.holds.map((hold) => [hold.key, hold.fencingToken]));
    return { key, keys, mode, fencingTokens, isReleased: this.ended !== undefined };
  }

  /** All at once: whoever waits for one of them need not wait for the others. */
  private releaseAll(isAwaited: boolean): Owned<ReleaseReply> {
    const worst = (replies: readonly ReleaseReply[]) =>
      replies.find((r) => r === 'not held') ?? replies.find((r) => r === 'unknown') ?? 'released';
    return Promise.all(this.holds.map((hold) => hold.release(isAwaited))).then(worst) as Owned<ReleaseReply>;
  }
}

inspectByJson(HeldLock, 'Lock');
