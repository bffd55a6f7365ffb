import { AsyncResource } from 'node:async_hooks';
import type { Claim } from '../../port/claim.js';
import type { Owned } from '../../async/in-background.js';
import { LockLostError, type LockShutdownError } from '../../port/lock.errors.js';
import type { ReleaseReply } from '../../port/lock-store.js';
import { LossController } from './loss-controller.js';

/** Without asking the store. */
export const RELEASED = Promise.resolve('released') as Owned<ReleaseReply>;
const NOT_HELD = Promise.resolve('not held') as Owned<ReleaseReply>;

/** The owner whose key a hold is a part of. */
interface HeldOwner {
  readonly key: string;
  readonly claim: Claim;
  readonly now: number;
  readonly validForMs: number;
  /** The lease is over by our clock, or by the time of day, but the store may have answered or can be asked. */
  readonly isInDoubt: boolean;
  /** Why it must not be believed in before the store has answered. */
  readonly doubt: string | undefined;
  whenSure(): Owned<void>;
  /** Once the service has begun to close. */
  readonly shutdown: LockShutdownError | undefined;
  checkValidity(): void;
  extend(ms: number): Promise<void>;
  downgrade(): Promise<void>;
  release(hold: Hold, isAwaited: boolean): Owned<ReleaseReply>;
}

/**
 * One caller's possession of one key, under one fencing token.
 *
 * Nested calls share it; it goes back to the tenure with the last share, and then never comes alive again.
 */
export class Hold {
  readonly key: string;
  readonly acquiredAt: number;
  /** Nobody else gets the key before this, even if it is released sooner. */
  keepUntil = 0;
  private shares = 1;
  private lostWith: LockLostError | undefined;
  private ended: Owned<ReleaseReply> | undefined;
  private controller: LossController | undefined;
  private listeners: Set<() => void> | undefined;
  private shutdownController: LossController | undefined;

  constructor(
    readonly scope: symbol,
    readonly call: number,
    readonly owner: HeldOwner,
    readonly fencingToken: number,
    now: number,
  ) {
    this.key = owner.key;
    this.acquiredAt = now;
  }

  get claim(): Claim {
    return this.owner.claim;
  }

  /** Computed, never remembered: after a stall of the event loop the first that asks finds out. */
  get isLive(): boolean {
    return this.ended === undefined && this.loss === undefined;
  }

  /** Why it was lost before the release, if it was. */
  get loss(): LockLostError | undefined {
    if (this.ended === undefined && this.lostWith === undefined) this.owner.checkValidity();
    return this.lostWith;
  }

  /** Whether it was lost is better asked when `whenSure` has resolved. */
  get isInDoubt(): boolean {
    return this.ended === undefined && this.lostWith === undefined && this.owner.isInDoubt;
  }

  whenSure(): Owned<void> {
    return this.owner.whenSure();
  }

  /** @throws LockLostError also while it cannot be known whether it is still held */
  assertBelieved(): void {
    const { key, loss, owner: tenure, acquiredAt } = this;
    if (loss) throw loss;
    if (this.ended === undefined && tenure.doubt !== undefined)
      throw new LockLostError(key, tenure.now - acquiredAt, 'expired', tenure.doubt);
  }

  get validForMs(): number {
    return this.isLive ? this.owner.validForMs : 0;
  }

  get signal(): AbortSignal {
    const { loss } = this;
    this.controller ??= new LossController();
    if (loss) this.controller.abort(loss);
    return this.controller.signal;
  }

  get shutdownSignal(): AbortSignal {
    this.shutdownController ??= new LossController();
    this.tellShutdown();
    return this.shutdownController.signal;
  }

  /** Who listens is told if the service has begun to close. */
  tellShutdown(): void {
    const { shutdown } = this.owner;
    if (shutdown && this.ended === undefined) this.shutdownController?.abort(shutdown);
  }

  /**
   * Calls `listener`, which must not throw, if it is lost from now on, in the async context of this call. As `signal` does,
   * which takes 6 µs to make and to listen to.
   *
   * @returns stops listening
   */
  onLoss(listener: () => void): () => void {
    const context = new AsyncResource('nestjs-distributed-lock.loss');
    const tell = () => context.runInAsyncScope(listener);
    const listeners = (this.listeners ??= new Set());
    listeners.add(tell);
    return () => {
      listeners.delete(tell);
    };
  }

  share(keepAtLeastMs: number): this {
    this.shares += 1;
    this.keepFor(keepAtLeastMs);
    return this;
  }

  /** From the acquisition, or from now for a nested call that asks for more. */
  keepFor(ms: number): void {
    if (ms > 0) this.keepUntil = Math.max(this.keepUntil, this.owner.now + ms);
  }

  /**
   * Ends one share; with the last one the tenure passes the lock on.
   *
   * @param isAwaited the caller goes on when the store has answered
   * @returns what the store says
   */
  release(isAwaited = false): Owned<ReleaseReply> {
    this.shares -= 1;
    const { loss } = this;
    if (this.shares > 0) return loss ? NOT_HELD : RELEASED;
    this.ended ??= loss ? NOT_HELD : this.owner.release(this, isAwaited);
    return this.ended;
  }

  /**
   * The lease is over. What happens after a release is nobody's loss.
   *
   * @returns tells those who listen
   */
  lose(error: LockLostError): () => void {
    if (this.ended !== undefined || this.lostWith !== undefined) return () => undefined;
    this.lostWith = error;
    return () => {
      this.controller?.abort(error);
      for (const tell of this.listeners ?? []) tell();
    };
  }
}
