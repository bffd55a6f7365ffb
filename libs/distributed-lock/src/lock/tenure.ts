import { isAlone, SHARED, type Claim } from './claim.js';
import { Asking } from './asking.js';
import { Hold, type ReleaseOutcome } from './hold.js';
import { keepUntil } from './keep.js';
import { Lease } from './lease.js';
import type { LocalLine } from './local-line.js';
import type { LockCore } from './lock-core.js';
import { LockConfigurationError, LockLostError, LockStoreError } from './lock.errors.js';
import type { LockRequest } from './lock-request.js';
import type { Ask, EndReply, Grant, Push, Renewal, RenewalReply } from './lock-store.js';
import type { Waiter } from './waiter.js';
import { leaseMargin } from './validity.js';

/** How long a process may go on passing the lock to its own callers while others wait. */
const SLICE_MS = 4;
/** While it passes the lock on locally, a process asks at least this often whether others wait. */
const LONGEST_BLIND_MS = 1000;

/**
 * waiting:    asks, or stands in the store's line.
 * confirming: granted, but nobody is let in before the store has confirmed it.
 * held:       a caller is inside; several, if they are readers of one process.
 * ended:      given up, for good; an owner id never comes back.
 */
type State = 'waiting' | 'confirming' | 'held' | 'ended';

type Caller = Pick<Waiter, 'call' | 'request' | 'askedAt'>;

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
  private lease: Lease | undefined;
  private readonly holds = new Set<Hold>();
  /** How it is held: as asked for, until it steps down. */
  private held: Claim;
  /** Nobody else gets the key before this. */
  private keepUntil = 0;

  private readonly asking: Asking;
  private cancelExpiry: (() => void) | undefined;
  /** Others wait: no local hand-off from then on. */
  private sliceUntil: number | undefined;

  constructor(
    private readonly line: LocalLine,
    private readonly request: LockRequest,
    private readonly core: LockCore,
  ) {
    this.key = request.key;
    this.held = request.claim;
    this.owner = core.tenures.enter(this);
    this.asking = new Asking(this.owner, request, line, core, {
      onGrant: (grant) => this.onGrant(grant),
      onNobodyLeft: () => this.leave(),
    });
  }

  start(): void {
    this.asking.start();
  }

  get claim(): Claim {
    return this.held;
  }

  get isHeld(): boolean {
    return this.state === 'held';
  }

  get isInLine(): boolean {
    return this.asking.isInLine;
  }

  get now(): number {
    return this.core.clock.now();
  }

  get validForMs(): number {
    return this.lease?.validForMs ?? 0;
  }

  // --- granted --------------------------------------------------------------------------------------------------

  onPush(push: Push): void {
    switch (push.kind) {
      case 'granted':
        return this.onGrant(push);
      case 'wanted':
        return this.onWaiting(push.waiting);
      case 'lost':
        return this.lose('taken', 'it was released by force');
      case 'look':
        return push.afterMs > 0 ? this.asking.lookAfter(push.afterMs) : this.asking.look();
    }
  }

  private onGrant(grant: Grant): void {
    // The end of this owner is under way and is repeated until no grant of it can be left.
    if (this.state === 'ended') return;
    if (this.state !== 'waiting') return this.onGrantAgain(grant);
    this.asking.stop();
    const lease = (this.lease = new Lease(grant, this.request.leaseMs, this.core.clock));
    this.onWaiting(grant.waiting);
    if (!lease.isConfirmed) this.renewNow();
    this.admit(lease);
  }

  /** Nobody gets a dead lock: an answer that took longer than its lease must be confirmed by a faster one. */
  private admit(lease: Lease): void {
    if (lease.validForMs > 0) return this.serve();
    this.state = 'confirming';
    if (lease.isConfirmed) this.line.dismissImpatient(this.tooSlow(lease));
    if (this.line.size === 0) void this.end();
    else this.renewNow();
  }

  /** The same grant, told twice, is good news; another one means that the first was lost in between. */
  private onGrantAgain(grant: Grant): void {
    if (grant.token !== this.lease?.token) return this.lose('taken', 'it was lost and granted anew');
    if (grant.confirmed) this.onConfirmed(this.lease, grant.validUntil);
  }

  private onConfirmed(lease: Lease, validUntil: number): void {
    lease.onAnswer(validUntil);
    lease.isConfirmed = true;
    if (!this.request.watched) this.core.watchdog.unwatch(this);
    if (this.state === 'confirming') this.admit(lease);
  }

  /** Lets the next caller in, or all readers that wait; without any the lock goes back. */
  private serve(): void {
    const { core, line, lease } = this;
    const first = line.shift();
    if (!first || !lease) return void this.end();
    this.guard();
    first.outcome.resolve(this.letIn(first, lease));
    while (this.isForMany && lease.hasToken && line.size > 0) {
      const next = line.shift() as Waiter;
      next.outcome.resolve(this.letIn(next, lease));
    }
    line.onServed(this);
  }

  private letIn({ call, request, askedAt }: Caller, lease: Lease): Hold {
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

  private guard(): void {
    this.state = 'held';
    if (this.request.watched) this.core.watchdog.watch(this);
    else this.armExpiry();
  }

  /** A reader has come while others of this process are inside: it enters, unless somebody waits for them to leave. */
  letJoin(): void {
    const { lease } = this;
    if (this.state !== 'held' || !this.isForMany || !lease || !this.mayHandOff(lease)) return;
    this.renewIfBlind(lease);
    this.serve();
  }

  /** One lease for all readers of a process, if it is one that the watchdog renews. */
  private get isForMany(): boolean {
    const { claim, watched, fair } = this.request;
    return claim.kind === 'shared' && watched && !fair;
  }

  // --- together with other keys ---------------------------------------------------------------------------------

  /** What is asked for when it is not to wait. */
  askOnce(): Ask {
    const { key, claim, leaseMs } = this.request;
    return { key, owner: this.owner, claim, leaseMs, waitMs: 0, place: 0, tokens: 1 };
  }

  /** Its caller enters without having stood in line. */
  enterTogether(grant: Grant, askedAt: number): Hold {
    const { core, key, request } = this;
    const lease = (this.lease = new Lease(grant, request.leaseMs, core.clock));
    const call = core.nextCall();
    core.emit({ type: 'asked', call, key });
    this.guard();
    return this.letIn({ call, askedAt, request }, lease);
  }

  /** The others were not to be had. */
  giveUp(mayHold: boolean): void {
    if (mayHold) void this.end();
    else this.leave();
  }

  // --- released -------------------------------------------------------------------------------------------------

  /** A caller inside is done; after the last one: the next one of this process, or the next process. */
  passOn(hold: Hold): Promise<ReleaseOutcome> {
    const { core, key, owner, lease } = this;
    const now = core.clock.now();
    const { call, fencingToken } = hold;
    core.emit({ type: 'released', call, key, owner, fencingToken, heldMs: now - hold.acquiredAt });
    this.holds.delete(hold);
    this.keepUntil = Math.max(this.keepUntil, hold.keepUntil);
    if (this.holds.size > 0) return Promise.resolve('released');
    if (lease && this.keepUntil > now) return this.keep(lease).then(asReleaseOutcome, () => 'unknown');
    if (!lease || !this.mayHandOff(lease)) return this.end().then(asReleaseOutcome, () => 'unknown');
    if (lease.isConfirmed) {
      this.renewIfBlind(lease);
      this.serve();
    } else this.state = 'confirming';
    return Promise.resolve('released');
  }

  private renewIfBlind({ answeredAt }: Lease): void {
    if (this.now - answeredAt > LONGEST_BLIND_MS) this.renewNow();
  }

  /** Never at the edge of a lease, never with a token that was not reserved, never past the slice. */
  private mayHandOff(lease: Lease): boolean {
    if (this.line.size === 0 || !this.request.watched || this.request.fair) return false;
    if (this.sliceUntil !== undefined && this.now >= this.sliceUntil) return false;
    return lease.isSound && this.held === this.request.claim;
  }

  private onWaiting(waiting: number): void {
    if (this.line.othersOf(waiting) <= 0) this.sliceUntil = undefined;
    else this.sliceUntil ??= this.core.clock.now() + SLICE_MS;
  }

  onNobodyWaits(): void {
    if (this.asking.isRunning || this.state === 'confirming') void this.end();
  }

  /** Nobody asks any more. Whoever was only ever answered "busy" has nothing to give up. */
  private leave(): void {
    if (this.asking.mayBeKnown) return void this.end();
    this.stop();
    this.core.tenures.leave(this);
    this.line.onTenureEnded(this);
  }

  private end(delayMs = 0): Promise<EndReply> {
    const { key, owner, core, claim } = this;
    this.stop();
    // Built once: a repetition that said another last token would give one of them out twice.
    const end = {
      key,
      owner,
      claim,
      leaseMs: this.lease?.leaseMs ?? this.request.leaseMs,
      ...this.lease?.used,
    };
    const send = () => core.store.end(end);
    const ended = delayMs > 0 ? core.tenures.pause(delayMs).then(send) : send();
    core.tenures.leave(this, ended);
    this.line.onTenureEnded(this);
    return ended;
  }

  /** The caller has promised the key a longer time than it took: nobody gets it before that is over. */
  private keep(lease: Lease): Promise<EndReply> {
    const { key, owner, core, claim } = this;
    this.stop();
    const kept = keepUntil(this.keepUntil, { key, owner, claim, ...lease.startRenewal() }, core);
    core.tenures.leave(this, kept);
    this.line.onTenureEnded(this);
    return kept;
  }

  private stop(): void {
    this.state = 'ended';
    this.asking.stop();
    this.cancelExpiry?.();
    this.core.watchdog.unwatch(this);
  }

  // --- renewal and loss -----------------------------------------------------------------------------------------

  renewal(): Renewal | undefined {
    const { key, owner, claim, lease } = this;
    return lease && { key, owner, claim, ...lease.startRenewal() };
  }

  isRenewalDue(now: number): boolean {
    return this.lease?.isRenewalDue(now) ?? false;
  }

  onRenewal(reply: RenewalReply): void {
    const { lease } = this;
    lease?.endRenewal();
    if (!lease || (this.state !== 'held' && this.state !== 'confirming')) return;
    if (reply.kind === 'renewed') this.onRenewed(lease, reply.validUntil, reply.waiting);
    else if (reply.kind === 'unknown') this.onRenewalUnknown(lease, reply.error);
    else if (!lease.isUntouched) this.lose('taken', 'the store says that it is not held by us any more');
    else this.backToLine();
  }

  private onRenewed(lease: Lease, validUntil: number, waiting: number): void {
    const { key, owner, core } = this;
    if (lease.suspendedBy) {
      this.cancelExpiry?.();
      core.emit({ type: 'resumed', key, owner });
    }
    this.onWaiting(waiting);
    this.onConfirmed(lease, validUntil);
    if (!this.request.watched) this.armExpiry();
  }

  private onRenewalUnknown(lease: Lease, error: LockStoreError): void {
    const { key, owner, core } = this;
    if (!lease.suspendedBy) core.emit({ type: 'suspended', key, owner, validForMs: lease.validForMs, error });
    lease.onNoAnswer(error);
    // A fixed lease is asked after only until it is certain; nothing renews it once somebody is inside.
    if (this.request.watched || !lease.isConfirmed || this.state === 'confirming') core.watchdog.watch(this);
    if (this.state === 'held') return this.armExpiry();
    this.line.onStoreError(error);
    this.line.dismissImpatient(error);
    if (this.line.size === 0) void this.end();
  }

  /** Lost before anybody was let in: asks again, at the old place. */
  private backToLine(): void {
    this.state = 'waiting';
    this.lease = undefined;
    this.core.watchdog.unwatch(this);
    this.asking.start();
  }

  private tooSlow({ leaseMs }: Lease): LockStoreError {
    const message = `Could not acquire "${this.key}": the store's answer took longer than the lease of ${leaseMs} ms.`;
    return new LockStoreError(message, this.key, 'unknown');
  }

  private renewNow(): void {
    if (!this.lease?.isRenewing) void this.core.watchdog.renew([this]);
  }

  /** Sets a fixed lease anew. */
  async extend(ms: number): Promise<void> {
    const { key } = this;
    if (this.request.watched) {
      throw new LockConfigurationError(
        `"${key}" is renewed by the watchdog: extend() is for locks with a leaseMs.`,
      );
    }
    await this.setLease(ms, `extend "${key}" by ${ms} ms`);
  }

  /** From alone to shared: the store lets readers in beside it. What its line still waits for is asked for anew. */
  async downgrade(): Promise<void> {
    const { key, lease, request, line } = this;
    if (request.claim.kind === 'permits') {
      throw new LockConfigurationError(`"${key}" is held by permits: downgrade() is for exclusive locks.`);
    }
    if (!lease || !isAlone(this.held)) return;
    this.held = SHARED;
    line.onTenureEnded(this);
    const leaseMs = request.watched ? lease.leaseMs : Math.max(1, Math.floor(lease.validForMs));
    await this.setLease(leaseMs, `downgrade "${key}"`);
  }

  private async setLease(ms: number, what: string): Promise<void> {
    const { key, owner, claim, lease, core } = this;
    if (!lease) return;
    lease.set(ms);
    const { token, lastToken } = lease.startRenewal();
    const [reply] = await core.store.renew([{ key, owner, claim, leaseMs: ms, token, lastToken }]);
    if (!reply) return;
    if (reply.kind === 'renewed') lease.reset(reply.validUntil);
    this.onRenewal(reply);
    if (reply.kind !== 'unknown') return;
    const message = `Could not ${what}: ${reply.error.message}. It is valid for another ${Math.round(lease.validForMs)} ms.`;
    throw new LockStoreError(message, key, 'unknown', { cause: reply.error });
  }

  /** A timer is only the fast way: whoever asks a hold computes the same. */
  private armExpiry(): void {
    this.cancelExpiry?.();
    this.cancelExpiry = this.core.clock.after(Math.ceil(this.validForMs), () => {
      this.checkValidity();
      // Timers may fire a moment before the clock says so.
      if (this.state === 'held') this.armExpiry();
    });
  }

  checkValidity(): void {
    if (this.state !== 'held' || !this.lease || this.lease.validForMs > 0) return;
    this.lose('expired', this.expiryDetail(this.lease));
  }

  private expiryDetail({ leaseMs, answeredAt, suspendedBy }: Lease): string {
    if (!this.request.watched) return `its lease of ${leaseMs} ms ran out`;
    const since = Math.round(this.core.clock.now() - answeredAt);
    return `no renewal succeeded since ${since} ms${suspendedBy ? ` (last error: ${suspendedBy.message})` : ''}`;
  }

  /** Nobody but the caller inside has anything to lose. */
  lose(reason: LockLostError['reason'], detail: string): void {
    if (this.state === 'waiting' || this.state === 'ended') return;
    const { key, owner, core, lease } = this;
    const cause = lease?.suspendedBy;
    for (const hold of this.holds) {
      const { call, fencingToken } = hold;
      const heldMs = this.now - hold.acquiredAt;
      const error = new LockLostError(key, heldMs, reason, detail, cause && { cause });
      hold.lose(error);
      core.emit({ type: 'lost', call, key, owner, fencingToken, error });
    }
    // We stop believing before the store does. What the store still keeps may protect the caller's last step.
    void this.end(reason === 'expired' && lease ? leaseMargin(lease.leaseMs) : 0);
  }
}

function asReleaseOutcome(reply: EndReply): ReleaseOutcome {
  return reply === 'not held' ? 'lost' : reply;
}
