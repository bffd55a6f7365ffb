import { isExclusive } from '../../port/claim.js';
import { leadOf } from '../../time/clock.js';
import type { FairQueue } from './fair-queue.js';
import type { FairQueues } from './fair-queues.js';
import type { LockRuntime } from '../lock-runtime.js';
import { LockStoreError } from '../../port/lock.errors.js';
import { kindName, type LockRequest } from '../request/lock-request.js';
import type { AcquireReply, Repeated, Grant } from '../../port/lock-store.js';
import { RECHECK_MS } from '../../port/recheck-interval.js';

/** A store drops whoever has not looked for three looks; more patience than this need not be told. */
const LONGEST_WAIT_PER_REQUEST_MS = 60_000;
/** Tokens reserved for local hand-offs. More would let them run ahead of the store's clock (docs/decisions/0004). */
export const TOKENS_FOR_HAND_OFFS = 1000;
/** Where several hold at once: unused numbers seldom go back. */
export const TOKENS_FOR_READERS = 100;
/** Busy, though somebody waits: it joined after the asking, or its time is over and its timer late. Never in a loop. */
const BUSY_RETRY_MS = 1;
const RETRY_MS = { least: 50, spread: 50 };

/** The callers for whom an owner asks. */
export interface WaitingCallers {
  readonly size: number;
  /** For how long callers may wait, in ms. Any value from `enough` on is as good as `enough`. */
  longestWaitMs(enough: number): number;
  /** @param askedAt when the store was asked */
  onHolder(owner: string | undefined, remainingMs: number, askedAt: number): void;
  onStoreError(error: LockStoreError): void;
  /** Callers that do not wait, or no longer, are told that the key is busy. */
  refuseImpatient(): void;
  dismissImpatient(error: unknown): void;
  dismissAll(error: unknown): void;
}

/** Who asks. */
interface AskingOwner {
  readonly id: string;
  onGrant(grant: Grant): void;
  /** All callers have been told; nobody asks any more. */
  onQueueEmpty(): void;
}

/**
 * Asks the store for one owner until it is granted: the first time, and each look after it, with the same owner and
 * place. One command is in flight at a time.
 *
 * Looks are the net under the pushes: when the holder's lease is over, when the subscription stands again, and once in
 * a while. A failure of the store is a reason to look again soon, as long as somebody waits.
 */
export class AcquireLoop {
  private isActive = false;
  private inFlight = false;
  private isRecheckDue = false;
  ticket = 0;
  /** Of a fair caller, while it stands in the store's line. */
  private fairQueue: FairQueue<AcquireLoop> | undefined;
  private lookedAt = -Infinity;
  private isUnsure = false;
  /** How far the time of day was ahead of the clock when the store was asked last. */
  private askedLead = 0;
  private cancelRecheck: (() => void) | undefined;

  constructor(
    private readonly owner: AskingOwner,
    private readonly request: LockRequest,
    private readonly callers: WaitingCallers,
    private readonly core: LockRuntime,
    private readonly fairQueues: FairQueues<AcquireLoop>,
  ) {}

  get lead(): number {
    return this.askedLead;
  }

  /** The store is about to be asked. */
  onAsk(): void {
    this.askedLead = leadOf(this.core.clock);
  }

  /** The store may know this owner, or get to know it by an attempt that was never answered. */
  get mayBeQueued(): boolean {
    return this.isUnsure || this.ticket > 0;
  }

  /** An attempt was never answered: it may be executed at any time until its end is. */
  get mayComeLate(): boolean {
    return this.isUnsure;
  }

  note({ mayComeLate }: Repeated): void {
    if (mayComeLate) this.isUnsure = true;
  }

  get isRunning(): boolean {
    return this.isActive;
  }

  get isQueued(): boolean {
    return this.isActive && this.ticket > 0;
  }

  start(): void {
    this.isActive = true;
    this.recheck();
  }

  stop(): void {
    this.isActive = false;
    this.cancelRecheck?.();
    this.cancelRecheck = undefined;
    this.fairQueue?.leave(this);
    this.fairQueue = undefined;
  }

  /** Its place may have been dropped since its last look. */
  onFirst(): void {
    this.recheckAfter(Math.max(0, this.lookedAt + RECHECK_MS - this.core.clock.now()));
  }

  recheck(): void {
    if (!this.isActive) return;
    if (this.inFlight) {
      this.isRecheckDue = true;
      return;
    }
    this.cancelRecheck?.();
    this.inFlight = true;
    this.onAsk();
    this.lookedAt = this.core.clock.now();
    const { owner: asker, ticket: place } = this;
    const { key, claim, leaseMs } = this.request;
    const waitMs = this.callers.longestWaitMs(LONGEST_WAIT_PER_REQUEST_MS);
    const tokens = this.tokensWanted();
    this.core.store.acquire({ key, owner: asker.id, claim, leaseMs, waitMs, ticket: place, tokens }).then(
      (reply) => this.afterAnswer(() => this.onReply(reply)),
      (error: unknown) => this.afterAnswer(() => this.onFailure(error)),
    );
  }

  recheckAfter(ms: number): void {
    if (!this.isActive) return;
    this.cancelRecheck?.();
    if (ms <= 0) return this.recheck();
    this.cancelRecheck = this.core.clock.after(ms, () => this.recheck());
  }

  private tokensWanted(): number {
    const { claim, watched, fair } = this.request;
    if (!watched || fair) return 1;
    if (!isExclusive(claim)) return TOKENS_FOR_READERS;
    return this.callers.size > 1 ? TOKENS_FOR_HAND_OFFS : 1;
  }

  private afterAnswer(step: () => void): void {
    this.inFlight = false;
    const again = this.isRecheckDue;
    this.isRecheckDue = false;
    step();
    if (again) this.recheck();
  }

  private onReply(reply: AcquireReply): void {
    this.note(reply);
    if (reply.kind === 'granted') return this.owner.onGrant(reply);
    // A push may have overtaken this reply: then it is old news.
    if (!this.isActive) return;
    if (reply.kind === 'queued') this.onQueued(reply.ticket);
    this.tell((line) => line.onHolder(reply.holder, reply.remainingMs, this.lookedAt));
    this.callers.refuseImpatient();
    if (this.callers.size === 0) this.owner.onQueueEmpty();
    else if (reply.kind === 'busy') this.recheckAfter(BUSY_RETRY_MS);
    else if (this.isFirst) this.recheckAfter(reply.recheckAfterMs);
  }

  private onFailure(error: unknown): void {
    if (!this.isActive) return;
    if (!(error instanceof LockStoreError) || error.reason === 'refused') this.callers.dismissAll(error);
    else {
      if (error.reason === 'unknown') this.isUnsure = true;
      this.tell((line) => line.onStoreError(error));
      this.callers.dismissImpatient(error);
    }
    if (this.callers.size === 0) this.owner.onQueueEmpty();
    else if (this.isFirst) this.recheckAfter(RETRY_MS.least + Math.random() * RETRY_MS.spread);
  }

  private onQueued(place: number): void {
    this.ticket = place;
    if (this.request.fair) this.fairQueue ??= this.fairQueues.enter(kindName(this.request), this);
  }

  /** Nobody of its process looks in its stead. */
  private get isFirst(): boolean {
    return !this.fairQueue || this.fairQueue.first === this;
  }

  /** The first one learns it for all that stand behind it. */
  private tell(step: (line: WaitingCallers) => void): void {
    if (this.fairQueue?.first === this) for (const { callers: line } of this.fairQueue) step(line);
    else step(this.callers);
  }
}
