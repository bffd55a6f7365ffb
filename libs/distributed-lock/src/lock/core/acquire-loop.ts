import { type ClockReading, randomMs, readClocks } from '../../common/clock.js';
import { isExclusive } from '../../port/lock-store.js';
import type { AcquireReply, AcquireRequest, Busy, Queued } from '../../port/lock-store.js';
import { type LockError, LockStoreError } from '../../port/lock.errors.js';
import { RECHECK_MS } from '../../port/timing.js';
import { kindName } from '../request/lock-request.js';
import type { Replies } from './guarded-store.js';
import type { LocalQueue } from './local-queue.js';
import type { LockRuntime } from './lock-runtime.js';
import type { Owner } from './owner.js';
import type { Takeover } from './takeover.js';

/** The longest `waitMs` sent to the store, which drops a waiter that is silent for three rechecks anyway. */
const MAX_WAIT_PER_REQUEST_MS = 60_000;
/**
 * Tokens reserved for local hand-offs. Unused ones go back. With fewer of them, an owner would have to go back to the store within
 * a millisecond; a crash leaves them ahead of the store's clock by this many microseconds (docs/decisions/0004).
 */
export const TOKENS_FOR_HAND_OFFS = 10_000;
/** Tokens reserved for readers. Where several owners hold, unused tokens seldom go back. */
export const TOKENS_FOR_READERS = 100;
/** Delay before the request for a caller that has come since the last request, or whose deadline timer is late. */
const BUSY_RETRY_MS = 1;
/** The loop rechecks this many ms before the store drops the owner, if a caller waits for longer. */
const BEFORE_DROPPED_MS = 50;
const RETRY_MS = { least: 50, spread: 50 };
const NEVER: ClockReading = { now: -Infinity, wallClockOffset: 0 };

/**
 * Sends the acquire requests of one owner until the store grants the lock: the first one, and each recheck with the same
 * owner id and ticket. One request is in flight at a time.
 *
 * A recheck makes up for a lost notification. It is sent when the holder's lease is over, when the subscription works
 * again, and at least every `RECHECK_MS`. After a failure of the store the loop rechecks soon, as long as callers wait.
 */
export class AcquireLoop implements Replies<AcquireReply> {
  /** The callers for whom it asks. */
  readonly callers: LocalQueue;
  private readonly runtime: LockRuntime;
  isRunning = false;
  /** The ticket of the last reply; 0 until the store has put this owner into its queue. */
  ticket = 0;
  /** A request was not answered: the store may execute it at any time until the owner is released. */
  private mayComeLate = false;
  /** When the last request was sent, by both clocks. */
  asked: ClockReading = NEVER;
  /** How long the store took to answer the last request, in ms. */
  roundTripMs = 0;
  /** The end of the wait that the last request has named. The store drops an owner that does not recheck sooner. */
  private waitsUntil = Infinity;
  private inFlight = false;
  /** The request in flight asks how many others wait. */
  private isCounting = false;
  private isNextDue = false;
  /** The fair callers of this process, once this owner is fair and has a ticket. */
  private fairQueue: readonly AcquireLoop[] | undefined;
  private cancelRecheck: (() => void) | undefined;
  /** When the next recheck is sent, if one is to be sent by time. */
  private recheckAt = Infinity;

  constructor(
    private readonly owner: Owner,
    /** Absent for an owner that waits for its turn. */
    private readonly takeover: Takeover | undefined,
  ) {
    this.callers = owner.callers;
    this.runtime = owner.runtime;
  }

  /** The store may have this owner: it has given a ticket, or has not answered a request. */
  get mayBeQueued(): boolean {
    return this.mayComeLate || this.ticket !== 0;
  }

  start(at?: ClockReading): void {
    this.isRunning = true;
    this.callers.isInStoreQueue = this.ticket !== 0;
    this.ask(at);
  }

  stop(): void {
    if (!this.isRunning) return;
    this.isRunning = this.callers.isInStoreQueue = false;
    this.dropRecheck();
    if (!this.fairQueue) return;
    this.fairQueue = undefined;
    this.runtime.fairQueues.leave(kindName(this.owner.key, this.owner.terms), this);
  }

  /** This owner is now the first of the fair ones. It rechecks, because the store may have dropped it from its queue meanwhile. */
  onFirst(): void {
    this.recheckAfter(Math.max(0, this.asked.now + RECHECK_MS - this.runtime.clock.now()));
  }

  /** A notification that names a later time does not put off a recheck that is due before, because a caller may wait for it. */
  recheckAfter(ms: number): void {
    if (!this.isRunning) return;
    const { clock } = this.runtime;
    const now = clock.now();
    const at = Math.min(this.recheckAt, now + ms);
    if (at <= now) return this.ask();
    if (at === this.recheckAt) return;
    this.cancelRecheck?.();
    this.recheckAt = at;
    this.cancelRecheck = clock.after(ms, () => {
      this.recheckAt = Infinity;
      this.ask();
    });
  }

  /** Asks again before the store drops the owner, if a caller waits for longer than the last request has said. */
  stayInQueue(): void {
    const { isRunning, inFlight, waitsUntil, callers } = this;
    if (!isRunning || inFlight || !this.isFirst || waitsUntil >= this.recheckAt) return;
    const now = this.runtime.clock.now();
    const longest = now + callers.longestWaitMs(MAX_WAIT_PER_REQUEST_MS, now);
    if (longest > waitsUntil + 1) this.recheckAfter(Math.max(0, waitsUntil - BEFORE_DROPPED_MS - now));
  }

  askNow(): void {
    if (!this.inFlight) this.ask();
  }

  /** Sends an acquire request, the first or a later one. While another is in flight, the next one follows its reply. */
  ask(at = readClocks(this.runtime.clock)): void {
    if (!this.isRunning) return;
    if (this.inFlight) {
      this.isNextDue = true;
      return;
    }
    this.dropRecheck();
    this.inFlight = true;
    const request = this.nextRequest(at);
    this.isCounting = request.maxWaiting !== undefined;
    // A takeover presents a ticket at once, so the store may keep the owner in its queue whatever it replies. It must be released.
    if (this.takeover) this.mayComeLate = true;
    this.runtime.store.acquire(request, this);
  }

  /** @param at a moment of this turn, from which validity counts: the caller sends the request at once */
  private nextRequest(at: ClockReading): AcquireRequest {
    const { owner, callers, takeover } = this;
    const { key, id, terms } = owner;
    const { claim, leaseMs } = terms;
    this.asked = at;
    const waitMs = callers.longestWaitMs(MAX_WAIT_PER_REQUEST_MS, this.asked.now);
    this.waitsUntil = this.asked.now + waitMs;
    const ticket = this.ticket || (takeover?.firstTicket() ?? 0);
    const tokens = this.tokensWanted();
    const request = { key, owner: id, claim, leaseMs, waitMs, ticket, tokens };
    const { maxWaiting } = callers;
    return maxWaiting === undefined ? request : { ...request, maxWaiting };
  }

  private dropRecheck(): void {
    this.recheckAt = Infinity;
    this.cancelRecheck?.();
  }

  private tokensWanted(): number {
    const { claim, watched, fair } = this.owner.terms;
    if (!watched || fair) return 1;
    if (!isExclusive(claim)) return TOKENS_FOR_READERS;
    return this.callers.size > 1 ? TOKENS_FOR_HAND_OFFS : 1;
  }

  onReply(reply: AcquireReply): void {
    const at = readClocks(this.runtime.clock);
    const isNextDue = this.endRequest(at.now);
    if (reply.mayComeLate) this.mayComeLate = true;
    if (reply.kind === 'granted') this.owner.onGrant(reply, at);
    // A grant may have overtaken this reply as a notification.
    else if (this.isRunning) this.onRefusal(reply, at.now);
    if (isNextDue) this.ask();
  }

  onFailure(error: LockError): void {
    const { now } = this.owner;
    const isNextDue = this.endRequest(now);
    if (this.isRunning) this.onError(error, now);
    if (isNextDue) this.ask();
  }

  /** @returns whether the next request was put off until the reply */
  private endRequest(now: number): boolean {
    const { isNextDue } = this;
    this.inFlight = this.isNextDue = false;
    this.roundTripMs = now - this.asked.now;
    return isNextDue;
  }

  /** The store has put the owner into its queue, or has refused a request that asks once. */
  private onRefusal(reply: Queued | Busy, now: number): void {
    this.callers.watchFirst(now);
    if (reply.kind === 'queued') this.onQueued(reply.ticket);
    for (const { callers } of this.sharers())
      callers.onHolder(reply.holder, reply.remainingMs, this.asked.now);
    this.callers.refuseNeedingAnswerNow();
    if (this.isCounting) this.callers.onOthersCounted(reply, this.asked.now);
    if (this.callers.size === 0) this.owner.abandon();
    else if (reply.kind === 'busy' || this.callers.mustAskAgain) this.recheckAfter(BUSY_RETRY_MS);
    else if (this.isFirst) {
      this.recheckAfter(reply.recheckAfterMs);
      this.takeover?.onHolder(reply.holder);
      this.stayInQueue();
    }
  }

  private onError(error: LockError, now: number): void {
    this.callers.watchFirst(now);
    if (!(error instanceof LockStoreError) || error.reason === 'refused') this.callers.dismissAll(error);
    else {
      if (error.reason === 'unknown') this.mayComeLate = true;
      for (const { callers } of this.sharers()) callers.onStoreError(error);
      this.callers.rejectNeedingAnswerNow(error);
    }
    if (this.callers.size === 0) this.owner.abandon();
    else if (this.isFirst) this.recheckAfter(randomMs(this.runtime.chance, RETRY_MS));
  }

  private onQueued(ticket: number): void {
    this.ticket = ticket;
    this.callers.isInStoreQueue = true;
    if (this.owner.terms.fair)
      this.fairQueue ??= this.runtime.fairQueues.enter(kindName(this.owner.key, this.owner.terms), this);
  }

  /** No other fair caller of this process rechecks for this one. */
  private get isFirst(): boolean {
    return !this.fairQueue || this.fairQueue[0] === this;
  }

  /** The loops that share an answer: the first fair caller asks for those behind it, too. */
  private sharers(): readonly AcquireLoop[] {
    return this.fairQueue?.[0] === this ? this.fairQueue : [this];
  }
}

/**
 * The fair callers of one process for each kind of claim of a key, in the order of their tickets.
 *
 * Only the first of them rechecks, and shares the answer with the others. The store drops the others from its queue
 * meanwhile. They lose nothing, because each keeps its ticket, and presents it again when it becomes the first, before the
 * one ahead of it can release.
 */
export class FairQueues {
  private readonly byKind = new Map<string, AcquireLoop[]>();

  sizeOf(kind: string): number {
    return this.byKind.get(kind)?.length ?? 0;
  }

  enter(kind: string, waiter: AcquireLoop): readonly AcquireLoop[] {
    let queue = this.byKind.get(kind);
    if (!queue) this.byKind.set(kind, (queue = []));
    queue.splice(queue.findLastIndex(({ ticket }) => ticket <= waiter.ticket) + 1, 0, waiter);
    return queue;
  }

  leave(kind: string, waiter: AcquireLoop): void {
    const queue = this.byKind.get(kind) ?? [];
    const i = queue.indexOf(waiter);
    if (i < 0) return;
    queue.splice(i, 1);
    if (queue.length === 0) this.byKind.delete(kind);
    else if (i === 0) queue[0]?.onFirst();
  }
}
