import { whatHasArrived } from './arrived.js';
import { Asking, type WaitingCallers } from './asking.js';
import type { Claim } from './claim.js';
import { leadOf } from './clock.js';
import type { FairQueues } from './fair-queues.js';
import { Few } from './few.js';
import { Hold, RELEASED } from './hold.js';
import { inBackground, type Owned } from './in-background.js';
import { endAfter, keepUntil, type Afterwards } from './keep.js';
import { LeaseKeeper } from './lease-keeper.js';
import type { LockCore } from './lock-core.js';
import {
  LockConfigurationError,
  LockLostError,
  LockStoreError,
  type LockShutdownError,
} from './lock.errors.js';
import type { LockRequest } from './lock-request.js';
import type { Ask, Repeated, End, EndReply, Grant, Push } from './lock-store.js';
import { Slice } from './slice.js';
import type { Watchdog } from './watchdog.js';

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
  readonly askedAt: number;
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
  onServed(tenure: Tenure): void;
  /** The owner has ended, or no longer holds as these callers ask for. */
  onTenureEnded(tenure: Tenure): void;
}

/** The owners of this process: where one gets its id, and what outlives it. */
interface Registry extends Afterwards {
  readonly fairQueues: FairQueues<Asking>;
  /** Once the service has begun to close. */
  readonly shutdownErrorOf: ((key: string) => LockShutdownError) | undefined;
  enter(tenure: Tenure): string;
  leave(tenure: Tenure): void;
  track(key: string, ended: Promise<EndReply>): Owned<EndReply>;
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
export class Tenure {
  readonly key: string;
  readonly owner: string;
  private state: State = 'waiting';
  private keeper: LeaseKeeper | undefined;
  private readonly holds = new Few<Hold>();
  private readonly asking: Asking;
  /** Nobody else gets the key before this. */
  private keepUntil = 0;
  private readonly slice = new Slice();

  constructor(
    private readonly line: Callers,
    private readonly request: LockRequest,
    private readonly core: LockCore,
    private readonly around: Surroundings,
  ) {
    this.key = request.key;
    this.owner = around.registry.enter(this);
    this.asking = new Asking(this, request, line, core, around.registry.fairQueues);
  }

  start(): void {
    this.asking.start();
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

  get isInLine(): boolean {
    return this.asking.isInLine;
  }

  get now(): number {
    return this.core.clock.now();
  }

  get validForMs(): number {
    return this.keeper?.lease.validForMs ?? 0;
  }

  // --- granted --------------------------------------------------------------------------------------------------

  onPush(push: Push): void {
    switch (push.kind) {
      case 'granted':
        return this.onGrant(push);
      case 'wanted':
        return this.onWanted(push.waiting);
      case 'lost':
        return this.onLost('taken', 'it was released by force');
      case 'look':
        return push.afterMs > 0 ? this.asking.lookAfter(push.afterMs) : this.asking.look();
    }
  }

  onGrant(grant: Grant): void {
    // The end of this owner is under way and is repeated until no grant of it can be left.
    if (this.state === 'ended') return;
    if (this.state !== 'waiting') return this.onGrantAgain(grant);
    this.asking.stop();
    const keeper = (this.keeper = new LeaseKeeper(
      this,
      grant,
      this.request,
      this.core,
      this.around.watchdog,
      this.asking.lead,
    ));
    this.onWaiting(grant.waiting);
    // It leaves before the caller starts, who may block the event loop for longer than a push is valid.
    if (!grant.confirmed) keeper.renewNow();
    this.admit(keeper);
  }

  /** Nobody gets a dead lock: an answer that took longer than its lease must be confirmed by a faster one. */
  private admit(keeper: LeaseKeeper): void {
    if (keeper.lease.validForMs > 0) return this.serve(keeper);
    this.state = 'confirming';
    if (keeper.lease.isConfirmed) this.line.dismissImpatient(this.tooSlow(keeper.lease.leaseMs));
    if (this.line.size === 0) this.leave();
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
    this.line.onStoreError(error);
    this.line.dismissImpatient(error);
    if (this.line.size === 0) this.leave();
  }

  /** Lets the next caller in, or all readers that wait; without any the lock goes back. */
  private serve(keeper: LeaseKeeper): void {
    const { line } = this;
    let next = line.shift();
    if (!next) return this.leave();
    this.state = 'held';
    keeper.guard();
    do next.resolve(this.letIn(next, keeper));
    while (this.isForMany && keeper.lease.hasToken && (next = line.shift()));
    line.onServed(this);
  }

  private letIn({ call, request, askedAt }: Caller, { lease }: LeaseKeeper): Hold {
    const { core, key, owner } = this;
    const now = core.clock.now();
    const by = lease.isUntouched ? 'store' : 'local';
    const fencingToken = lease.takeToken();
    const hold = new Hold(core.scope, call, this, fencingToken, now);
    hold.keepFor(request.holdAtLeastMs);
    this.holds.add(hold);
    core.emit({ type: 'acquired', call, key, owner, fencingToken, waitedMs: now - askedAt, by });
    return hold;
  }

  /** A reader has come while others of this process are inside: it enters, unless somebody waits for them to leave. */
  letJoin(): void {
    const { keeper } = this;
    if (this.state !== 'held' || !this.isForMany || this.slice.isRunning) return;
    if (!keeper || !this.mayHandOff(keeper) || keeper.lease.validForMs <= 0) return;
    keeper.renewIfBlind();
    this.serve(keeper);
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
  askOnce(): Ask {
    const { key, claim, leaseMs } = this.request;
    this.asking.onAsk();
    return { key, owner: this.owner, claim, leaseMs, waitMs: 0, place: 0, tokens: 1 };
  }

  /** It has not run out since it was asked for, by any clock. */
  isGood({ validUntil }: Grant): boolean {
    const { clock } = this.core;
    const ahead = Math.max(0, leadOf(clock) - this.asking.lead);
    return validUntil - ahead > clock.now();
  }

  /** Its caller enters without having stood in line. */
  enterTogether(grant: Grant & Repeated, askedAt: number): Hold {
    const { core, key, request, around } = this;
    this.asking.note(grant);
    const keeper = (this.keeper = new LeaseKeeper(
      this,
      grant,
      request,
      core,
      around.watchdog,
      this.asking.lead,
    ));
    const call = core.nextCall();
    core.emit({ type: 'asked', call, key });
    this.state = 'held';
    keeper.guard();
    return this.letIn({ call, askedAt, request }, keeper);
  }

  /** Its caller leaves without having stood in line. */
  tellAbandoned(askedAt: number, error: unknown): void {
    const { core, key } = this;
    const call = core.nextCall();
    core.emit({ type: 'asked', call, key });
    core.emit({ type: 'abandoned', call, key, waitedMs: this.now - askedAt, error });
  }

  /** The others were not to be had. */
  giveUp(mayHold: boolean): void {
    if (mayHold) this.leave();
    else this.onNobodyLeft();
  }

  // --- held -----------------------------------------------------------------------------------------------------

  get isInDoubt(): boolean {
    return this.keeper?.isInDoubt ?? false;
  }

  get doubt(): string | undefined {
    return this.keeper?.doubt;
  }

  whenSure(): Owned<void> {
    return this.keeper?.whenSure() ?? whatHasArrived();
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
    const { key, request, line } = this;
    if (request.claim.kind === 'permits') {
      throw new LockConfigurationError(`"${key}" is held by permits: downgrade() is for exclusive locks.`);
    }
    const stepsDown = this.keeper?.downgrade();
    if (this.claim !== request.claim) line.onTenureEnded(this);
    await stepsDown;
  }

  /** Before anybody was let in it asks again, at the old place. Nobody but the callers inside has anything to lose. */
  onLost(reason: LockLostError['reason'], detail: string): void {
    const { key, owner, core, keeper } = this;
    if (this.state === 'waiting' || this.state === 'ended' || !keeper) return;
    if (keeper.lease.isUntouched) return this.backToLine(keeper);
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

  private backToLine(keeper: LeaseKeeper): void {
    keeper.stop();
    this.state = 'waiting';
    this.keeper = undefined;
    this.asking.start();
  }

  // --- released -------------------------------------------------------------------------------------------------

  /** A caller inside is done; after the last one: the next one of this process, or the next process. */
  passOn(hold: Hold, isAwaited: boolean): Owned<EndReply> {
    const { core, key, owner, keeper } = this;
    const { call, fencingToken } = hold;
    core.emit({ type: 'released', call, key, owner, fencingToken, heldMs: this.now - hold.acquiredAt });
    this.holds.delete(hold);
    this.slice.count();
    this.keepUntil = Math.max(this.keepUntil, hold.keepUntil);
    if (this.holds.size > 0) return RELEASED;
    if (keeper && this.keepUntil > this.now) return this.keep(keeper);
    if (!keeper || !this.mayHandOff(keeper)) return this.end(0, isAwaited);
    if (keeper.lease.isConfirmed) {
      keeper.renewIfBlind();
      this.serve(keeper);
    } else this.state = 'confirming';
    return RELEASED;
  }

  /** Never at the edge of a lease, never with a token that was not reserved, never past the slice. */
  private mayHandOff({ lease, claim }: LeaseKeeper): boolean {
    if (this.line.size === 0 || !this.request.watched || this.request.fair) return false;
    if (this.slice.isOver(this.now)) return false;
    return lease.isSound && claim === this.request.claim;
  }

  onWaiting(waiting: number): void {
    if (this.line.othersOf(waiting) <= 0) this.slice.clear();
    else this.slice.start(this.now);
  }

  /** Told by a push, which anybody may have published: that nobody waits is believed only of an answer of the store. */
  private onWanted(waiting: number): void {
    if (this.line.othersOf(waiting) > 0) this.slice.start(this.now);
  }

  onNobodyWaits(): void {
    if (this.asking.isRunning || this.state === 'confirming') this.leave();
  }

  /** Nobody asks any more. Whoever was only ever answered "busy" has nothing to give up. */
  onNobodyLeft(): void {
    if (this.asking.mayBeKnown) return this.leave();
    this.stop();
    this.around.registry.leave(this);
    this.line.onTenureEnded(this);
  }

  private leave(delayMs = 0): void {
    inBackground(this.end(delayMs));
  }

  private end(delayMs = 0, isAwaited = false): Owned<EndReply> {
    const { core, around } = this;
    // Built once: a repetition that said another last token would give one of them out twice.
    const end = this.whatEnds(isAwaited);
    const send = () => core.store.end(end);
    return this.finish(() => (delayMs > 0 ? around.registry.pause(delayMs).then(send) : send()));
  }

  private whatEnds(isAwaited = false): End {
    const { key, owner, claim, keeper } = this;
    const leaseMs = keeper?.lease.leaseMs ?? this.request.leaseMs;
    const isWanted = this.slice.isRunning;
    return { key, owner, claim, leaseMs, ...keeper?.lease.used, isWanted, isAwaited };
  }

  /** The caller has promised the key a longer time than it took: nobody gets it before that is over. */
  private keep(keeper: LeaseKeeper): Owned<EndReply> {
    const { key, keepUntil: until } = this;
    const { registry } = this.around;
    const end = this.whatEnds();
    // A late copy of an acquire would bring the lock back when it has run out.
    if (this.asking.mayComeLate) inBackground(registry.track(key, endAfter(until, end, registry)));
    return this.finish(() => keepUntil(until, keeper.renewal(), end, registry));
  }

  private finish(how: () => Promise<EndReply>): Owned<EndReply> {
    const { registry } = this.around;
    this.stop();
    const ended = registry.track(this.key, how());
    registry.leave(this);
    this.line.onTenureEnded(this);
    return ended;
  }

  private stop(): void {
    this.state = 'ended';
    this.asking.stop();
    this.keeper?.stop();
  }
}
