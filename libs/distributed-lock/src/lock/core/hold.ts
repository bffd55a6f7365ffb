import { AsyncResource } from 'node:async_hooks';
import { setMaxListeners } from 'node:events';
import { type ClockReading, nextTurn } from '../../common/clock.js';
import { bindListeners } from '../../common/listeners.js';
import { detached, type NeverRejects } from '../../common/promises.js';
import { type Claim, modeOf, type ReleaseReply } from '../../port/lock-store.js';
import { LockLostError } from '../../port/lock.errors.js';
import type { HoldSnapshot } from '../lock.js';
import { type CallSite, siteText } from '../request/call-site.js';
import type { LockRequest } from '../request/lock-request.js';
import { type Release, RELEASED } from './guarded-store.js';
import type { Owner } from './owner.js';
import type { Call } from './wait-deadlines.js';

const NOT_HELD: Release = { reply: Promise.resolve('not held') as NeverRejects<ReleaseReply> };

/**
 * One caller's part in an owner that has the lock, with a fencing token of its own.
 *
 * Nested calls share the hold. When the last of them ends, the hold goes back to the owner and is never live again.
 */
export class Hold {
  /** Identifies the service, because the locks of several services can be in one async flow. */
  readonly scope: symbol;
  /** The number of the call that has acquired it, as in the events. */
  readonly call: number;
  readonly key: string;
  readonly site: string | CallSite | undefined;
  /** Whether nested calls may share it. If not, they are refused. */
  readonly isReentrant: boolean;
  /** The end of the minimum hold (`holdAtLeastMs`): no other owner gets the key before this, even if the hold is released sooner. */
  holdUntil = 0;
  /** How many calls share it: the one that has acquired it, and nested ones that have not ended. */
  calls = 1;
  /** The site of the last nested call, for a warning. */
  private lastSharedBy: string | CallSite | undefined;
  private loss: LockLostError | undefined;
  private released: Release | undefined;
  private controller: LossController | undefined;
  private listeners: Set<(loss: LockLostError) => void> | undefined;
  private shutdownController: LossController | undefined;

  constructor(
    readonly owner: Owner,
    { number, request }: Call,
    readonly fencingToken: number,
    readonly acquiredAt: number,
  ) {
    const { terms, site } = request;
    this.scope = owner.runtime.scope;
    this.call = number;
    this.key = owner.key;
    this.site = site;
    this.isReentrant = terms.reentrant;
    this.holdAtLeast(terms.holdAtLeastMs);
  }

  get claim(): Claim {
    return this.owner.claim;
  }

  /** Whether the hold was released, or is known to be lost. Does not check the lease. */
  get isOver(): boolean {
    return this.released !== undefined || this.loss !== undefined;
  }

  /** Whether the hold is neither released nor lost. Checks the lease itself, because no timer runs while the event loop is blocked. */
  isLive(): boolean {
    return this.released === undefined && this.noticeLoss() === undefined;
  }

  /** Checks the lease, and reports a loss that nobody has noticed yet. @returns the loss, if it came before the release */
  noticeLoss(at?: ClockReading): LockLostError | undefined {
    if (!this.isOver) this.owner.noticeExpiry(at);
    return this.loss;
  }

  /** True while it is not certain whether the lock is lost. Await `whenSure` to find out. */
  isInDoubt(at?: ClockReading): boolean {
    return !this.isOver && this.owner.lease?.doubtReason(at) !== undefined;
  }

  /** @throws LockLostError if the lock is lost, and also while it is in doubt */
  assertBelieved(): void {
    const { key, owner, acquiredAt } = this;
    const loss = this.noticeLoss();
    if (loss) throw loss;
    const doubt = this.released === undefined ? owner.lease?.doubtReason() : undefined;
    if (doubt) throw new LockLostError(key, owner.now - acquiredAt, 'expired', doubt);
  }

  openSignal(): AbortSignal {
    const loss = this.noticeLoss();
    this.controller ??= new LossController();
    if (loss) this.controller.abort(loss);
    this.tellTakeover();
    return this.controller.signal;
  }

  /**
   * Aborts `signal` if another call takes the lock over and somebody has asked for the signal. The lock stays held until the grace is
   * over.
   */
  tellTakeover(): void {
    const { takeover, now } = this.owner;
    if (!takeover || this.isOver) return;
    const { by, graceMs } = takeover;
    const detail = `${by} takes it over, and leaves ${graceMs} ms for the work to end`;
    this.controller?.abort(new LockLostError(this.key, now - this.acquiredAt, 'takeover', detail));
  }

  openShutdownSignal(): AbortSignal {
    this.shutdownController ??= new LossController();
    this.tellShutdown();
    return this.shutdownController.signal;
  }

  /** Aborts `shutdownSignal` if the service is closing and somebody has asked for the signal. */
  tellShutdown(): void {
    const shutdown = this.owner.runtime.owners.shutdownErrorOf?.(this.key);
    if (shutdown && this.released === undefined) this.shutdownController?.abort(shutdown);
  }

  /**
   * Calls `listener`, which must not throw, when the lock is lost. It runs in the async context in which `onLoss` was called. An
   * AbortSignal would do the same, but takes 5 µs to make and to listen to (`npm run bench -- --only http`).
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

  /** Describes the hold for `held()` and for holder entries. @param timeOfDay in ms, read at the same moment as `now` */
  describe(now: number, timeOfDay: number): HoldSnapshot {
    const { key, claim, fencingToken, calls } = this;
    const site = siteText(this.site);
    const { id: owner, validForMs, leaseMs } = this.owner;
    const heldMs = now - this.acquiredAt;
    const since = new Date(timeOfDay - heldMs);
    return { key, mode: modeOf(claim), owner, fencingToken, site, since, heldMs, validForMs, leaseMs, calls };
  }

  /** Adds a nested call to those that share this hold. */
  share({ terms, site }: LockRequest): this {
    this.calls += 1;
    this.lastSharedBy = site;
    this.holdAtLeast(terms.holdAtLeastMs);
    return this;
  }

  /** Called when the call that acquired the lock ends. Warns if nested calls still share the hold, because they keep the key locked. */
  onFirstCallEnds(): void {
    if (this.calls <= 1 || this.isOver) return;
    // Check in the next turn of the event loop: if several calls return the same stream, its end ends all of these calls in one turn, in
    // any order.
    const warnIfOpen = () => {
      if (!this.isOver) this.warnOfNested();
    };
    detached(() => nextTurn(this.owner.runtime.clock, warnIfOpen));
  }

  private warnOfNested(): void {
    const [outer, nested] = [callText(this.site), callText(this.lastSharedBy)];
    this.owner.runtime.events.warnOnce(
      `outlived: ${outer}, ${nested}`,
      `"${this.key}" stays locked although ${outer}, which acquired it, has ended: ${nested} shares the lock and still runs. Await it there. If it was not called there, a shared queue or pool has started it in the async context of the other: wrap the task, as in queue.add(AsyncResource.bind(task)), and use reentrant: false.`,
    );
  }

  /** Starts a minimum hold of `ms` now. Called when the lock is acquired, and for each nested call, which may ask for a longer one. */
  holdAtLeast(ms: number): void {
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
    if (this.released) return this.released;
    // Set `released` before the owner emits an event: a listener of that event must find this hold no longer live.
    this.released = loss ? NOT_HELD : RELEASED;
    if (!loss) this.released = this.owner.release(this, isAwaited, at);
    return this.released;
  }

  /** Releases a hold whose work never began. Its minimum hold is dropped, unless an outer call shares the hold. */
  giveBack(): void {
    if (this.calls === 1) this.holdUntil = 0;
    this.release();
  }

  /**
   * Marks the hold as lost, unless it was released. @returns a function that notifies the listeners and aborts the signal, to be called
   * when all holds of the owner are marked
   */
  lose(error: LockLostError): () => void {
    if (this.isOver) return () => undefined;
    this.loss = error;
    return () => {
      this.controller?.abort(error);
      for (const tell of this.listeners ?? []) tell(error);
    };
  }
}

/** How messages name a call: by its site. */
export function callText(site: Hold['site']): string {
  return siteText(site) ?? 'a call without a name (option site)';
}

/**
 * Makes a signal that aborts on a loss, a takeover or a shutdown. Each listener of the signal runs in the async context in which it was
 * added. Listeners of an `AbortSignal.any(…)` with it run in the context in which the signal was first asked for.
 */
export class LossController extends AsyncResource {
  private readonly controller = new AbortController();
  readonly signal = bindListeners(this.controller.signal);

  constructor() {
    super('nestjs-distributed-lock.signal');
    allowManyListeners(this.signal);
  }

  /** Aborts the signal. A second call does nothing. */
  abort(reason: Error): void {
    this.runInAsyncScope(() => this.controller.abort(reason));
  }
}

/** Node warns of a leak at the 11th listener, but work under a lock may add a listener for each of its requests. */
function allowManyListeners(signal: AbortSignal): void {
  try {
    setMaxListeners(0, signal);
  } catch {
    // `setMaxListeners` throws for a signal of jsdom, which applications use in tests. Such a signal has no limit.
  }
}
