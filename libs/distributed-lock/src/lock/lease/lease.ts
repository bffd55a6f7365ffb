import { leadOf, type Clock } from '../../time/clock.js';
import type { ReleaseRequest, Grant } from '../../port/lock-store.js';
import { leaseValidity } from '../../port/lease-validity.js';

/** A lease is renewed when a third of it is over, so that two renewals in a row may fail. */
export const RENEWALS_PER_LEASE = 3;
const RENEWAL_RETRY_MS = { least: 100, spread: 200 };

/**
 * What this process may believe of one grant: until when it is valid, which fencing tokens are left of it, and when its
 * renewal is due.
 *
 * Validity counts from the moment the request was sent, on the monotonic clock: the store may have started the lease at
 * any time after that, so we give up no later than the store does. A renewal that fails does not move it.
 *
 * The monotonic clock stands still while the machine is suspended. So validity counts by the time of day, too, and the
 * shorter of both is believed; where only the time of day says that it is over, the store is asked.
 */
export class Lease {
  /** The store has answered for it; until then it is only as long as its push said. */
  isConfirmed: boolean;
  /** When the store last answered for it. */
  answeredAt: number;
  /** Why the last renewal got no answer; `undefined` while all is well. */
  suspendedBy: Error | undefined;
  private validUntil: number;
  private renewAt: number;
  private nextToken: number;
  private renewalInFlight = false;
  /** The lead of the time of day when the request was made that the store answered last. */
  private lead: number;

  constructor(
    private readonly grant: Grant,
    public leaseMs: number,
    private readonly clock: Clock,
    /** The lead of the time of day when the request was made that is under way, or was the last. */
    private askedLead: number,
  ) {
    this.lead = askedLead;
    this.isConfirmed = grant.confirmed;
    this.nextToken = grant.token;
    this.validUntil = grant.validUntil;
    this.answeredAt = clock.now();
    this.renewAt = this.nextRenewal();
  }

  /** Names the grant. */
  get token(): number {
    return this.grant.token;
  }

  get validForMs(): number {
    const { aheadMs } = this;
    return Math.max(0, this.leftMs - aheadMs);
  }

  /** What is left of it by the monotonic clock alone. */
  get leftMs(): number {
    return Math.max(0, this.validUntil - this.clock.now());
  }

  /** Over by the time of day alone: the machine was suspended, or its clock was set. Only the store can tell. */
  get isUnsure(): boolean {
    return this.validForMs <= 0 && this.leftMs > 0;
  }

  /** What the time of day has gained since the store was asked. */
  private get aheadMs(): number {
    return Math.max(0, leadOf(this.clock) - this.lead);
  }

  /** Nobody has been let in under this grant yet. */
  get isUntouched(): boolean {
    return this.nextToken === this.grant.token;
  }

  /** Sound enough to be passed on without asking: a token is left, half of it is left, and no renewal is overdue. */
  get isSound(): boolean {
    if (!this.hasToken || this.suspendedBy) return false;
    return !this.isConfirmed || this.validForMs >= this.leaseMs / 2;
  }

  get hasToken(): boolean {
    return this.nextToken <= this.grant.lastToken;
  }

  takeToken(): number {
    return this.nextToken++;
  }

  /** Tokens that were reserved and not used, to be given back. */
  get used(): Pick<ReleaseRequest, 'used'> {
    const last = this.nextToken - 1;
    if (this.isUntouched || last >= this.grant.lastToken) return {};
    return { used: { token: last, lastToken: this.grant.lastToken } };
  }

  /** The store has answered for this grant. */
  onAnswer(validUntil: number): void {
    this.validUntil = Math.max(this.validUntil, validUntil);
    this.lead = this.askedLead;
    this.suspendedBy = undefined;
    this.answeredAt = this.clock.now();
    this.renewAt = this.nextRenewal();
  }

  /** About to ask for another length: until the answer comes, only the shorter of the two can be believed in. */
  set(leaseMs: number): void {
    this.leaseMs = leaseMs;
    this.validUntil = Math.min(this.validUntil, leaseValidity(this.clock.now(), leaseMs));
  }

  /** The store has set the lease anew, to a length that may be shorter. */
  reset(validUntil: number): void {
    this.validUntil = validUntil;
  }

  onNoAnswer(error: Error): void {
    this.suspendedBy = error;
    this.renewAt = this.clock.now() + RENEWAL_RETRY_MS.least + Math.random() * RENEWAL_RETRY_MS.spread;
  }

  isRenewalDue(now: number): boolean {
    return !this.renewalInFlight && (now >= this.renewAt || now + this.aheadMs >= this.renewAt);
  }

  get isRenewing(): boolean {
    return this.renewalInFlight;
  }

  startRenewal(): Pick<Grant, 'token' | 'lastToken'> & { readonly leaseMs: number } {
    this.renewalInFlight = true;
    this.askedLead = leadOf(this.clock);
    const { leaseMs } = this;
    const { token, lastToken } = this.grant;
    return { leaseMs, token, lastToken };
  }

  endRenewal(): void {
    this.renewalInFlight = false;
  }

  /** Spread, so that leases that were taken together are not all renewed together. */
  private nextRenewal(): number {
    const dueAfterMs = this.leaseMs / RENEWALS_PER_LEASE;
    return this.clock.now() + dueAfterMs - Math.random() * (dueAfterMs / 10);
  }
}
