import { AsyncResource } from 'node:async_hooks';
import { type ClockReading, nextTurn, timeOfDay } from '../../common/clock.js';
import { BoundController } from '../../common/listeners.js';
import { withoutContext } from '../../common/promises.js';
import { type Claim, modeOf, placeholderOf } from '../../port/lock-store.js';
import { LockLostError } from '../../port/lock.errors.js';
import type { HoldSnapshot } from '../lock.js';
import { writeBaton } from '../request/baton.js';
import { CallSite } from '../request/call-site.js';
import type { LockRequest } from '../request/lock-request.js';
import type { Call } from './call.js';
import { type Release, RELEASED } from './guarded-store.js';
import type { Lease } from './lease.js';
import type { Owner } from './owner.js';

const LOST: Release = { outcome: Promise.resolve('lost') };

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
    const { grace } = this.owner;
    if (!grace || this.isOver) return;
    const detail = `${grace.by} takes it over, and leaves ${grace.graceMs} ms for the work to end`;
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
    withoutContext(() => nextTurn(clock, warnIfOpen));
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
    if (this.calls > 0) return loss ? LOST : RELEASED;
    // Set this before the event: a listener must find this hold no longer live.
    this.isReleased = true;
    if (loss) return LOST;
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
    const outcome = await this.release(true).outcome;
    if (outcome === 'released') return writeBaton(baton);
    // With `unknown`, a copy of the release whose reply was lost may have detached the lock.
    const found = outcome === 'unknown' ? await store.inspect(key) : null;
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
