import { arrivedReplies } from '../../time/arrived-replies.js';
import { isExclusive, SHARED, type Claim } from '../../port/claim.js';
import { Link } from '../../collections/linked-queue.js';
import { inBackground, type Owned } from '../../async/in-background.js';
import type { LockRuntime } from '../lock-runtime.js';
import { LockConfigurationError, LockStoreError, type LockLostError } from '../../port/lock.errors.js';
import type { LockRequest } from '../request/lock-request.js';
import { Lease } from './lease.js';
import type { Grant, Renewal, RenewalReply } from '../../port/lock-store.js';
import { leaseMargin } from '../../port/lease-validity.js';
import type { Renewable, Watchdog } from './watchdog.js';

/** While it passes the lock on locally, a process asks at least this often whether others wait. */
export const LONGEST_BLIND_MS = 1000;
/** How soon after its machine has woken up a fixed lease is looked at, which no watchdog renews. */
const WAKE_CHECK_MS = 1000;
const UNSURE =
  'its machine was suspended, or its clock was set, and the store has not said since that it is still held';

/** Whose lease it is. */
interface LeaseOwner {
  readonly key: string;
  readonly id: string;
  /** Somebody is inside: the end of the lease is a loss. */
  readonly isHeld: boolean;
  /** The store has answered for the lease. */
  onConfirmed(): void;
  /** The store has not answered; the lease may be valid all the same. */
  onUnanswered(error: LockStoreError): void;
  onContention(waiting: number): void;
  onLost(reason: LockLostError['reason'], detail: string): void;
}

/**
 * Cares for the lease of one grant: has it renewed or confirmed, tells its three answers apart (renewed, lost, none), and
 * notices when it is over.
 */
export class LeaseKeeper extends Link implements Renewable {
  readonly lease: Lease;
  /** How it is held: as asked for, until it steps down. */
  claim: Claim;
  private hasSteppedDown = false;
  private cancelExpiry: (() => void) | undefined;
  private isStopped = false;

  constructor(
    private readonly holder: LeaseOwner,
    grant: Grant,
    private readonly request: LockRequest,
    private readonly core: LockRuntime,
    private readonly watchdog: Watchdog,
    askedLead: number,
  ) {
    super();
    this.lease = new Lease(grant, request.leaseMs, core.clock, askedLead);
    this.claim = request.claim;
  }

  /** Somebody is let in. */
  guard(): void {
    if (this.request.watched) this.watchdog.watch(this);
    else this.armExpiry();
  }

  stop(): void {
    this.isStopped = true;
    this.cancelExpiry?.();
    this.watchdog.unwatch(this);
  }

  // --- renewal --------------------------------------------------------------------------------------------------

  isRenewalDue(now: number): boolean {
    return this.lease.isRenewalDue(now);
  }

  renewal(): Renewal {
    const { key, id: owner } = this.holder;
    const { claim, lease } = this;
    const renewal = { key, owner, claim, ...lease.startRenewal() };
    if (this.request.watched || !lease.isUnsure) return renewal;
    // A fixed lease is only asked after, and stays as long as it was.
    return { ...renewal, leaseMs: Math.ceil(lease.leftMs + this.marginMs) };
  }

  renewNow(): void {
    if (!this.lease.isRenewing) inBackground(this.watchdog.renew([this]));
  }

  /** Before the lock is passed on without asking. */
  renewIfBlind(): void {
    if (this.core.clock.now() - this.lease.answeredAt > LONGEST_BLIND_MS) this.renewNow();
  }

  onRenewal(reply: RenewalReply): void {
    this.lease.endRenewal();
    if (this.isStopped) return;
    if (reply.kind === 'renewed') this.onRenewed(reply.validUntil, reply.waiting);
    else if (reply.kind === 'unknown') this.onUnanswered(reply.error);
    else this.holder.onLost('taken', 'the store says that it is not held by us any more');
  }

  /** The store has answered for this grant, by a renewal or by granting it again. */
  onConfirmed(validUntil: number): void {
    this.lease.onAnswer(validUntil);
    this.lease.isConfirmed = true;
    if (!this.request.watched) this.watchdog.unwatch(this);
    this.holder.onConfirmed();
  }

  private onRenewed(validUntil: number, waiting: number): void {
    const { key, id: owner } = this.holder;
    if (this.lease.suspendedBy) {
      this.cancelExpiry?.();
      this.core.emit({ type: 'resumed', key, owner });
    }
    this.holder.onContention(waiting);
    this.onConfirmed(validUntil);
    if (!this.request.watched) this.armExpiry();
  }

  private onUnanswered(error: LockStoreError): void {
    const { lease, core, holder, watchdog } = this;
    const { key, id: owner } = holder;
    if (!lease.suspendedBy) core.emit({ type: 'suspended', key, owner, validForMs: lease.validForMs, error });
    lease.onNoAnswer(error);
    // A fixed lease is asked after only until it is certain; nothing renews it once somebody is inside.
    const isAskedAfter = !lease.isConfirmed || lease.isUnsure;
    if (this.request.watched || isAskedAfter || !holder.isHeld) watchdog.watch(this);
    if (holder.isHeld) this.armExpiry();
    else holder.onUnanswered(error);
  }

  // --- set anew by its caller -------------------------------------------------------------------------------------

  async extend(ms: number): Promise<void> {
    const { key } = this.holder;
    if (this.request.watched) {
      throw new LockConfigurationError(
        `"${key}" is renewed by the watchdog: extend() is for locks with a leaseMs.`,
      );
    }
    await this.set(ms, `extend "${key}" by ${ms} ms`);
  }

  /** From alone to shared. A fixed lease stays as long as it was. */
  async downgrade(): Promise<void> {
    const { lease, request } = this;
    if (!isExclusive(request.claim) || this.hasSteppedDown) return;
    this.claim = SHARED;
    const leaseMs = request.watched ? lease.leaseMs : Math.max(1, Math.floor(lease.validForMs));
    await this.set(leaseMs, `downgrade "${this.holder.key}"`);
    this.hasSteppedDown = true;
  }

  private async set(ms: number, what: string): Promise<void> {
    const { lease } = this;
    lease.set(ms);
    const [reply] = await this.core.store.renew([{ ...this.renewal(), leaseMs: ms }]);
    if (!reply) return;
    if (reply.kind === 'renewed') lease.reset(reply.validUntil);
    this.onRenewal(reply);
    if (reply.kind !== 'unknown') return;
    const left = Math.round(lease.validForMs);
    const message = `Could not ${what}: ${reply.error.message}. It is valid for another ${left} ms.`;
    throw new LockStoreError(message, this.holder.key, 'unknown', { cause: reply.error });
  }

  // --- its end --------------------------------------------------------------------------------------------------

  /** A timer is only the fast way: whoever asks a hold computes the same. */
  private armExpiry(): void {
    const { clock } = this.core;
    this.cancelExpiry?.();
    const ms = Math.min(Math.ceil(this.lease.leftMs), clock.timeOfDay ? WAKE_CHECK_MS : Infinity);
    this.cancelExpiry = clock.after(ms, () => {
      this.checkValidity();
      // Timers may fire a moment before the clock says so.
      if (this.holder.isHeld && !this.isStopped) this.armExpiry();
    });
  }

  /** Over by our clock, or by the time of day, but the store may have answered or can be asked. */
  get isInDoubt(): boolean {
    const { lease, holder } = this;
    return holder.isHeld && (lease.isUnsure || (lease.isRenewing && lease.validForMs <= 0));
  }

  /** Why it must not be believed in before the store has answered. */
  get doubt(): string | undefined {
    return this.lease.isUnsure ? UNSURE : undefined;
  }

  /** Resolves once it is known whether the lease is over: by what has arrived, or by asking the store. */
  whenSure(): Owned<void> {
    if (!this.lease.isUnsure) return arrivedReplies();
    return this.watchdog.renew([this]).then(() => {
      if (this.holder.isHeld && this.lease.isUnsure) this.holder.onLost('expired', UNSURE);
    }) as Owned<void>;
  }

  checkValidity(): void {
    const { holder, lease } = this;
    if (!holder.isHeld) return;
    // The clock finds out here that the machine has slept. Only then does `leftMs` count that sleep.
    const { isUnsure } = lease;
    if (lease.leftMs <= 0) holder.onLost('expired', this.expiryDetail());
    else if (isUnsure) this.renewNow();
  }

  /** We stop believing before the store does. What the store still keeps may protect the caller's last step. */
  get marginMs(): number {
    return leaseMargin(this.lease.leaseMs);
  }

  private expiryDetail(): string {
    const { leaseMs, answeredAt, suspendedBy } = this.lease;
    if (!this.request.watched) return `its lease of ${leaseMs} ms ran out`;
    const since = Math.round(this.core.clock.now() - answeredAt);
    return `no renewal succeeded since ${since} ms${suspendedBy ? ` (last error: ${suspendedBy.message})` : ''}`;
  }
}
