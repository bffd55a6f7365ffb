import { arrivedReplies } from '../../time/arrived-replies.js';
import { AcquireLoop, type WaitingCallers } from './acquire-loop.js';
import type { Claim } from '../../port/claim.js';
import { leadOf } from '../../time/clock.js';
import type { FairQueues } from './fair-queues.js';
import { Few } from '../../collections/few.js';
import { Hold, RELEASED } from '../context/hold.js';
import { inBackground, type Owned } from '../../async/in-background.js';
import { LeaseKeeper } from '../lease/lease-keeper.js';
import type { LockRuntime } from '../lock-runtime.js';
import {
  LockConfigurationError,
  LockLostError,
  LockStoreError,
  type LockShutdownError,
} from '../../port/lock.errors.js';
import type { LockRequest } from '../request/lock-request.js';
import type {
  AcquireRequest,
  Repeated,
  ReleaseRequest,
  ReleaseReply,
  Grant,
  Notification,
} from '../../port/lock-store.js';
import { HandOffBudget } from './hand-off-budget.js';
import type { Watchdog } from '../lease/watchdog.js';

/**
 * waiting:    asks, or stands in the store's line.
 * confirming: granted, but nobody is let in before the store has confirmed it.
 * held:       a caller is inside; several, if they are readers of one process.
 * ended:      given up, for good; an owner id never comes back.
 */
type State = 'waiting' | 'confirming' | 'held' | 'ended';

/** One call that is let in. */
interface Caller {
  readonly call: number;
  readonly request: LockRequest;
  readonly waitingSince: number;
}

/** A call that waits. */
interface WaitingCaller extends Caller {
  resolve(hold: Hold): void;
}

/** The callers of this process for whom an owner asks, and to whom it hands the lock. */
export interface Callers extends WaitingCallers {
  /** The next caller, which no longer waits. */
  shift(): WaitingCaller | undefined;
  /** How many of the owners that wait in the store are not this process's own. */
  othersOf(waiting: number): number;
  /** The owner has let callers in. */
  onServed(tenure: Owner): void;
  /** The owner has ended, or no longer holds as these callers ask for. */
  onOwnerEnded(tenure: Owner): void;
}

/** The owners of this process: where one gets its id, and what outlives it. */
interface Registry {
  readonly fairQueues: FairQueues<AcquireLoop>;
  /** Once the service has begun to close. */
  readonly shutdownErrorOf: ((key: string) => LockShutdownError) | undefined;
  register(tenure: Owner): string;
  deregister(tenure: Owner): void;
  track(key: string, ended: Promise<ReleaseReply>): Owned<ReleaseReply>;
  pause(ms: number): Promise<void>;
}

interface Surroundings {
  readonly registry: Registry;
  readonly watchdog: Watchdog;
}

/**
 * One stay of this process with one key: from joining the line until giving the key up.
 *
 * It asks for all callers of its local line, hands the lock from one to the next without a round trip while that is
 * safe and fair, and ends once. The rules and the holes that they close: docs/decisions/0003.
 */
export class Owner {
  readonly key: string;
  readonly id: string;
  private state: State = 'waiting';
  private keeper: LeaseKeeper | undefined;
  private readonly holds = new Few<Hold>();
  private readonly acquireLoop: AcquireLoop;
  /** Nobody else gets the key before this. */
  private keepUntil = 0;
  private readonly budget = new HandOffBudget();

  constructor(
    private readonly callers: Callers,
    private readonly request: LockRequest,
    private readonly core: LockRuntime,
    private readonly around: Surroundings,
  ) {
    this.key = request.key;
    this.id = around.registry.register(this);
    this.acquireLoop = new AcquireLoop(this, request, callers, core, around.registry.fairQueues);
  }

  start(): void {
    this.acquireLoop.start();
  }

  get claim(): Claim {
    return this.keeper?.claim ?? this.request.claim;
  }

  get isHeld(): boolean {
    return this.state === 'held';
  }

  /** The store has granted the key to it; a caller may be inside. */
  get isGranted(): boolean {
    return this.state === 'held' || this.state === 'confirming';
  }

  get waits(): boolean {
    return this.request.waitMs > 0;
  }

  get isQueued(): boolean {
    return this.acquireLoop.isQueued;
  }

  get now(): number {
    return this.core.clock.now();
  }

  get validForMs(): number {
    return this.keeper?.lease.validForMs ?? 0;
  }

  // --- granted --------------------------------------------------------------------------------------------------

  onNotification(push: Notification): void {
    switch (push.kind) {
      case 'granted':
        return this.onGrant(push);
      case 'contended':
        return this.onWanted(push.waiting);
      case 'lost':
        return this.onLost('taken', 'it was released by force');
      case 'recheck':
        return push.afterMs > 0 ? this.acquireLoop.recheckAfter(push.afterMs) : this.acquireLoop.recheck();
    }
  }

  onGrant(grant: Grant): void {
    // The end of this owner is under way and is repeated until no grant of it can be left.
    if (this.state === 'ended') return;
    if (this.state !== 'waiting') return this.onGrantAgain(grant);
    this.acquireLoop.stop();
    const keeper = (this.keeper = new LeaseKeeper(
      this,
      grant,
      this.request,
      this.core,
      this.around.watchdog,
      this.acquireLoop.lead,
    ));
    this.onContention(grant.waiting);
    // It leaves before the caller starts, who may block the event loop for longer than a push is valid.
    if (!grant.confirmed) keeper.renewNow();
    this.admit(keeper);
  }

  /** Nobody gets a dead lock: an answer that took longer than its lease must be confirmed by a faster one. */
  private admit(keeper: LeaseKeeper): void {
    if (keeper.lease.validForMs > 0) return this.admitNext(keeper);
    this.state = 'confirming';
    if (keeper.lease.isConfirmed) this.callers.dismissImpatient(this.tooSlow(keeper.lease.leaseMs));
    if (this.callers.size === 0) this.leave();
    else keeper.renewNow();
  }

  /** The same grant, told twice, is good news; another one means that the first was lost in between. */
  private onGrantAgain(grant: Grant): void {
    if (grant.token !== this.keeper?.lease.token) this.onLost('taken', 'it was lost and granted anew');
    else if (grant.confirmed) this.keeper.onConfirmed(grant.validUntil);
  }

  onConfirmed(): void {
    if (this.state === 'confirming' && this.keeper) this.admit(this.keeper);
  }

  onUnanswered(error: LockStoreError): void {
    if (this.state !== 'confirming') return;
    this.callers.onStoreError(error);
    this.callers.dismissImpatient(error);
    if (this.callers.size === 0) this.leave();
  }

  /** Lets the next caller in, or all readers that wait; without any the lock goes back. */
  private admitNext(keeper: LeaseKeeper): void {
    const { callers: line } = this;
    let next = line.shift();
    if (!next) return this.leave();
    this.state = 'held';
    keeper.guard();
    do next.resolve(this.holdFor(next, keeper));
    while (this.isForMany && keeper.lease.hasToken && (next = line.shift()));
    line.onServed(this);
  }

  private holdFor({ call, request, waitingSince }: Caller, { lease }: LeaseKeeper): Hold {
    const { core, key, id: owner } = this;
    const now = core.clock.now();
    const by = lease.isUntouched ? 'store' : 'local';
    const fencingToken = lease.takeToken();
    const hold = new Hold(core.scope, call, this, fencingToken, now);
    hold.keepFor(request.holdAtLeastMs);
    this.holds.add(hold);
    core.emit({ type: 'acquired', call, key, owner, fencingToken, waitedMs: now - waitingSince, by });
    return hold;
  }

  /** A reader has come while others of this process are inside: it enters, unless somebody waits for them to leave. */
  admitReaders(): void {
    const { keeper } = this;
    if (this.state !== 'held' || !this.isForMany || this.budget.isRunning) return;
    if (!keeper || !this.mayHandOff(keeper) || keeper.lease.validForMs <= 0) return;
    keeper.renewIfBlind();
    this.admitNext(keeper);
  }

  /** One lease for all readers of a process, if it is one that the watchdog renews. */
  private get isForMany(): boolean {
    const { claim, watched, fair } = this.request;
    return claim.kind === 'shared' && watched && !fair;
  }

  private tooSlow(leaseMs: number): LockStoreError {
    const message = `Could not acquire "${this.key}": the store's answer took longer than the lease of ${leaseMs} ms.`;
    return new LockStoreError(message, this.key, 'unknown');
  }

  // --- together with other keys ---------------------------------------------------------------------------------

  /** What is asked for when it is not to wait. */
  askOnce(): AcquireRequest {
    const { key, claim, leaseMs } = this.request;
    this.acquireLoop.onAsk();
    return { key, owner: this.id, claim, leaseMs, waitMs: 0, ticket: 0, tokens: 1 };
  }

  /** It has not run out since it was asked for, by any clock. */
  isGood({ validUntil }: Grant): boolean {
    const { clock } = this.core;
    const ahead = Math.max(0, leadOf(clock) - this.acquireLoop.lead);
    return validUntil - ahead > clock.now();
  }

  /** Its caller enters without having stood in line. */
  enterTogether(grant: Grant & Repeated, waitingSince: number): Hold {
    const { core, key, request, around } = this;
    this.acquireLoop.note(grant);
    const keeper = (this.keeper = new LeaseKeeper(
      this,
      grant,
      request,
      core,
      around.watchdog,
      this.acquireLoop.lead,
    ));
    const call = core.nextCall();
    core.emit({ type: 'asked', call, key });
    this.state = 'held';
    keeper.guard();
    return this.holdFor({ call, waitingSince, request }, keeper);
  }

  /** Its caller leaves without having stood in line. */
  tellAbandoned(waitingSince: number, error: unknown): void {
    const { core, key } = this;
    const call = core.nextCall();
    core.emit({ type: 'asked', call, key });
    core.emit({ type: 'abandoned', call, key, waitedMs: this.now - waitingSince, error });
  }

  /** The others were not to be had. */
  giveUp(mayHold: boolean): void {
    if (mayHold) this.leave();
    else this.onQueueEmpty();
  }

  // --- held -----------------------------------------------------------------------------------------------------

  get isInDoubt(): boolean {
    return this.keeper?.isInDoubt ?? false;
  }

  get doubt(): string | undefined {
    return this.keeper?.doubt;
  }

  whenSure(): Owned<void> {
    return this.keeper?.whenSure() ?? arrivedReplies();
  }

  get shutdown(): LockShutdownError | undefined {
    return this.around.registry.shutdownErrorOf?.(this.key);
  }

  tellShutdown(): void {
    for (const hold of this.holds) hold.tellShutdown();
  }

  checkValidity(): void {
    this.keeper?.checkValidity();
  }

  /** Sets a fixed lease anew. */
  async extend(ms: number): Promise<void> {
    await this.keeper?.extend(ms);
  }

  /** The store lets readers in beside it. What its line still waits for is asked for anew. */
  async downgrade(): Promise<void> {
    const { key, request, callers: line } = this;
    if (request.claim.kind === 'permits') {
      throw new LockConfigurationError(`"${key}" is held by permits: downgrade() is for exclusive locks.`);
    }
    const stepsDown = this.keeper?.downgrade();
    if (this.claim !== request.claim) line.onOwnerEnded(this);
    await stepsDown;
  }

  /** Before anybody was let in it asks again, at the old place. Nobody but the callers inside has anything to lose. */
  onLost(reason: LockLostError['reason'], detail: string): void {
    const { key, id: owner, core, keeper } = this;
    if (this.state === 'waiting' || this.state === 'ended' || !keeper) return;
    if (keeper.lease.isUntouched) return this.backToQueue(keeper);
    const cause = keeper.lease.suspendedBy;
    // Whoever is told may look at the others, or release them: all have lost it before one is told.
    this.stop();
    const losses = [...this.holds].map((hold) => {
      const error = new LockLostError(key, this.now - hold.acquiredAt, reason, detail, cause && { cause });
      return { hold, error, tell: hold.lose(error) };
    });
    for (const { hold, error, tell } of losses) {
      const { call, fencingToken } = hold;
      tell();
      core.emit({ type: 'lost', call, key, owner, fencingToken, error });
    }
    this.leave(reason === 'expired' ? keeper.marginMs : 0);
  }

  private backToQueue(keeper: LeaseKeeper): void {
    keeper.stop();
    this.state = 'waiting';
    this.keeper = undefined;
    this.acquireLoop.start();
  }

  // --- released -------------------------------------------------------------------------------------------------

  /** A caller inside is done; after the last one: the next one of this process, or the next process. */
  release(hold: Hold, isAwaited: boolean): Owned<ReleaseReply> {
    const { core, key, id: owner, keeper } = this;
    const { call, fencingToken } = hold;
    core.emit({ type: 'released', call, key, owner, fencingToken, heldMs: this.now - hold.acquiredAt });
    this.holds.delete(hold);
    this.budget.count();
    this.keepUntil = Math.max(this.keepUntil, hold.keepUntil);
    if (this.holds.size > 0) return RELEASED;
    if (!keeper || this.keepUntil > this.now || !this.mayHandOff(keeper)) return this.end(0, isAwaited);
    if (keeper.lease.isConfirmed) {
      keeper.renewIfBlind();
      this.admitNext(keeper);
    } else this.state = 'confirming';
    return RELEASED;
  }

  /** Never at the edge of a lease, never with a token that was not reserved, never past the slice. */
  private mayHandOff({ lease, claim }: LeaseKeeper): boolean {
    if (this.callers.size === 0 || !this.request.watched || this.request.fair) return false;
    if (this.budget.isSpent(this.now)) return false;
    return lease.isSound && claim === this.request.claim;
  }

  onContention(waiting: number): void {
    if (this.callers.othersOf(waiting) <= 0) this.budget.clear();
    else this.budget.start(this.now);
  }

  /** Told by a push, which anybody may have published: that nobody waits is believed only of an answer of the store. */
  private onWanted(waiting: number): void {
    if (this.callers.othersOf(waiting) > 0) this.budget.start(this.now);
  }

  onNoCallers(): void {
    if (this.acquireLoop.isRunning || this.state === 'confirming') this.leave();
  }

  /** Nobody asks any more. Whoever was only ever answered "busy" has nothing to give up. */
  onQueueEmpty(): void {
    if (this.acquireLoop.mayBeQueued) return this.leave();
    this.stop();
    this.around.registry.deregister(this);
    this.callers.onOwnerEnded(this);
  }

  private leave(delayMs = 0): void {
    inBackground(this.end(delayMs));
  }

  private end(delayMs = 0, isAwaited = false): Owned<ReleaseReply> {
    const { core, around } = this;
    // Built once: a repetition that said another last token would give one of them out twice.
    const request = this.releaseRequest(isAwaited);
    const send = () => core.store.release(request);
    this.stop();
    const ended = around.registry.track(
      this.key,
      delayMs > 0 ? around.registry.pause(delayMs).then(send) : send(),
    );
    around.registry.deregister(this);
    this.callers.onOwnerEnded(this);
    return ended;
  }

  private releaseRequest(isAwaited = false): ReleaseRequest {
    const { key, id: owner, claim, keeper, keepUntil } = this;
    const leaseMs = keeper?.lease.leaseMs ?? this.request.leaseMs;
    const used = keeper?.lease.used;
    const keep = keepUntil > this.now ? { keepUntil } : undefined;
    const request = { key, owner, claim, leaseMs, ...used, ...keep };
    if (this.budget.isRunning) return { ...request, flush: 'now' };
    return isAwaited ? { ...request, flush: 'when idle' } : request;
  }

  private stop(): void {
    this.state = 'ended';
    this.acquireLoop.stop();
    this.keeper?.stop();
  }
}
