import { isAlone } from './claim.js';
import { leadOf } from './clock.js';
import type { LockCore } from './lock-core.js';
import { LockStoreError } from './lock.errors.js';
import type { LockRequest } from './lock-request.js';
import type { AcquireReply, Grant } from './lock-store.js';

/** A store drops whoever has not looked for three looks; more patience than this need not be told. */
const LONGEST_WAIT_PER_ASK_MS = 60_000;
/** Tokens reserved for local hand-offs. More would let them run ahead of the store's clock (docs/decisions/0004). */
const BLOCK = 1000;
/** Where several hold at once: unused numbers seldom go back. */
const SHARED_BLOCK = 100;
/** Busy, though somebody waits: it joined after the asking, or its time is over and its timer late. Never in a loop. */
const BUSY_RETRY_MS = 1;
const RETRY_MS = { least: 50, spread: 50 };

/** The callers for whom an owner asks. */
export interface WaitingCallers {
  readonly size: number;
  /** How long the most patient caller still waits, in ms. Any value from `enough` on is as good as `enough`. */
  longestWaitMs(enough: number): number;
  onHolder(owner: string | undefined, remainingMs: number): void;
  onStoreError(error: LockStoreError): void;
  /** Callers that do not wait are told that the key is busy, or `error`. */
  dismissImpatient(error?: unknown): void;
  dismissAll(error: unknown): void;
}

/** Who asks. */
interface Asker {
  readonly owner: string;
  onGrant(grant: Grant): void;
  /** All callers have been told; nobody asks any more. */
  onNobodyLeft(): void;
}

/**
 * Asks the store for one owner until it is granted: the first time, and each look after it, with the same owner and
 * place. One command is in flight at a time.
 *
 * Looks are the net under the pushes: when the holder's lease is over, when the subscription stands again, and once in
 * a while. A failure of the store is a reason to look again soon, as long as somebody waits.
 */
export class Asking {
  private isActive = false;
  private inFlight = false;
  private lookWanted = false;
  private place = 0;
  private isUnsure = false;
  /** How far the time of day was ahead of the clock when the store was asked last. */
  private askedLead = 0;
  private cancelLook: (() => void) | undefined;

  constructor(
    private readonly asker: Asker,
    private readonly request: LockRequest,
    private readonly line: WaitingCallers,
    private readonly core: LockCore,
  ) {}

  get lead(): number {
    return this.askedLead;
  }

  /** The store is about to be asked. */
  onAsk(): void {
    this.askedLead = leadOf(this.core.clock);
  }

  /** The store may know this owner, or get to know it by an attempt that was never answered. */
  get mayBeKnown(): boolean {
    return this.isUnsure || this.place > 0;
  }

  /** An attempt was never answered: it may be executed at any time until its end is. */
  get mayComeLate(): boolean {
    return this.isUnsure;
  }

  get isRunning(): boolean {
    return this.isActive;
  }

  get isInLine(): boolean {
    return this.isActive && this.place > 0;
  }

  start(): void {
    this.isActive = true;
    this.look();
  }

  stop(): void {
    this.isActive = false;
    this.cancelLook?.();
    this.cancelLook = undefined;
  }

  look(): void {
    if (!this.isActive) return;
    if (this.inFlight) {
      this.lookWanted = true;
      return;
    }
    this.cancelLook?.();
    this.inFlight = true;
    this.onAsk();
    const { asker, place } = this;
    const { key, claim, leaseMs } = this.request;
    const waitMs = this.line.longestWaitMs(LONGEST_WAIT_PER_ASK_MS);
    const tokens = this.tokensWanted();
    this.core.store.acquire({ key, owner: asker.owner, claim, leaseMs, waitMs, place, tokens }).then(
      (reply) => this.afterAnswer(() => this.onReply(reply)),
      (error: unknown) => this.afterAnswer(() => this.onFailure(error)),
    );
  }

  lookAfter(ms: number): void {
    if (!this.isActive) return;
    this.cancelLook?.();
    this.cancelLook = this.core.clock.after(ms, () => this.look());
  }

  private tokensWanted(): number {
    const { claim, watched, fair } = this.request;
    if (!watched || fair) return 1;
    if (!isAlone(claim)) return SHARED_BLOCK;
    return this.line.size > 1 ? BLOCK : 1;
  }

  private afterAnswer(step: () => void): void {
    this.inFlight = false;
    const again = this.lookWanted;
    this.lookWanted = false;
    step();
    if (again) this.look();
  }

  private onReply(reply: AcquireReply): void {
    if (reply.mayComeLate) this.isUnsure = true;
    if (reply.kind === 'granted') return this.asker.onGrant(reply);
    // A push may have overtaken this reply: then it is old news.
    if (!this.isActive) return;
    this.line.onHolder(reply.holder, reply.remainingMs);
    this.line.dismissImpatient();
    if (reply.kind === 'queued') this.place = reply.place;
    if (this.line.size === 0) this.asker.onNobodyLeft();
    else this.lookAfter(reply.kind === 'queued' ? reply.lookAfterMs : BUSY_RETRY_MS);
  }

  private onFailure(error: unknown): void {
    if (!this.isActive) return;
    if (!(error instanceof LockStoreError) || error.reason === 'refused') this.line.dismissAll(error);
    else {
      if (error.reason === 'unknown') this.isUnsure = true;
      this.line.onStoreError(error);
      this.line.dismissImpatient(error);
    }
    if (this.line.size === 0) this.asker.onNobodyLeft();
    else this.lookAfter(RETRY_MS.least + Math.random() * RETRY_MS.spread);
  }
}
