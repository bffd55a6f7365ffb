import { leadOf, readClocks, type Clock } from '../../time/clock.js';
import type { ReleaseRequest, Grant } from '../../port/lock-store.js';
import { leaseValidity } from '../../port/lease-validity.js';

/** A lease is renewed when a third of it is over, so that two renewals in a row may fail. */
export const RENEWALS_PER_LEASE = 3;
const RENEWAL_RETRY_MS = { least: 100, spread: 200 };

/**
 * The knowledge of this process about one grant: its validity, the fencing tokens that are left of it, and when its renewal
 * is due.
 *
 * Validity counts from the moment the request was sent, on the monotonic clock: the store may have started the lease at
 * any time after that, so the holder gives up no later than the store does. A renewal that fails does not move it.
 *
 * The monotonic clock stands still while the machine is suspended. So validity counts by the time of day, too, and the
 * shorter of both is believed. A lease that is over by the time of day alone is `unsure`: the store must be asked.
 */
export class Lease {
  /** The store has answered for the lease. Until then it is the initial lease of a notification. */
  isConfirmed: boolean;
  isRenewing = false;
  /** When the store last answered for the lease. */
  answeredAt: number;
  /** Why the last renewal got no answer. `undefined` after an answer. */
  suspendedBy: Error | undefined;
  private validUntil: number;
  private renewAt: number;
  private nextToken: number;
  /** The lead of the time of day when the request was sent that the store answered last. */
  private lead: number;

  constructor(
    private readonly grant: Grant,
    public leaseMs: number,
    private readonly clock: Clock,
    /** The lead of the time of day when the last request was sent. */
    private askedLead: number,
  ) {
    this.lead = askedLead;
    this.isConfirmed = grant.confirmed;
    this.nextToken = grant.token;
    this.validUntil = grant.validUntil;
    this.answeredAt = clock.now();
    this.renewAt = this.nextRenewal();
  }

  // --- validity -------------------------------------------------------------------------------------------------

  check(): 'valid' | 'unsure' | 'expired' {
    const { now, lead } = readClocks(this.clock);
    if (now >= this.validUntil) return 'expired';
    return this.validUntil - now > lead - this.lead ? 'valid' : 'unsure';
  }

  /** How much longer the lease may be believed in, by both clocks. */
  measureValidity(): number {
    const { now, lead } = readClocks(this.clock);
    return Math.max(0, this.validUntil - now - Math.max(0, lead - this.lead));
  }

  /** The remaining lease by the monotonic clock alone. */
  measureLeft(): number {
    return Math.max(0, this.validUntil - this.clock.now());
  }

  // --- tokens ---------------------------------------------------------------------------------------------------

  /** The first token, which names the grant. */
  get token(): number {
    return this.grant.token;
  }

  /** No caller has been admitted under this grant yet. */
  get isUntouched(): boolean {
    return this.nextToken === this.grant.token;
  }

  get hasToken(): boolean {
    return this.nextToken <= this.grant.lastToken;
  }

  takeToken(): number {
    return this.nextToken++;
  }

  /** The last token that was used, for the store to take back the rest. */
  get used(): Pick<ReleaseRequest, 'used'> {
    const last = this.nextToken - 1;
    if (this.isUntouched || last >= this.grant.lastToken) return {};
    return { used: { token: last, lastToken: this.grant.lastToken } };
  }

  /** A local hand-off is safe: a token is left, half of the lease is left, and the last renewal was answered. */
  checkHandOff(): boolean {
    if (!this.hasToken || this.suspendedBy) return false;
    return !this.isConfirmed || this.measureValidity() >= this.leaseMs / 2;
  }

  // --- renewal --------------------------------------------------------------------------------------------------

  checkRenewalDue(): boolean {
    if (this.isRenewing) return false;
    const { now, lead } = readClocks(this.clock);
    return now + Math.max(0, lead - this.lead) >= this.renewAt;
  }

  startRenewal(): Pick<Grant, 'token' | 'lastToken'> & { readonly leaseMs: number } {
    this.isRenewing = true;
    this.askedLead = leadOf(this.clock);
    const { leaseMs } = this;
    const { token, lastToken } = this.grant;
    return { leaseMs, token, lastToken };
  }

  /** A caller is about to ask for another length. Until the answer only the shorter of both is believed. */
  startReset(leaseMs: number): void {
    this.leaseMs = leaseMs;
    this.validUntil = Math.min(this.validUntil, leaseValidity(this.clock.now(), leaseMs));
  }

  /** The store has restarted the lease with another length, which may be shorter. */
  onReset(validUntil: number): void {
    this.validUntil = validUntil;
  }

  onAnswer(validUntil: number): void {
    this.validUntil = Math.max(this.validUntil, validUntil);
    this.lead = this.askedLead;
    this.isConfirmed = true;
    this.suspendedBy = undefined;
    this.answeredAt = this.clock.now();
    this.renewAt = this.nextRenewal();
  }

  onNoAnswer(error: Error): void {
    this.suspendedBy = error;
    this.renewAt = this.clock.now() + RENEWAL_RETRY_MS.least + Math.random() * RENEWAL_RETRY_MS.spread;
  }

  /** Spread, so that leases that were granted together are not all renewed together. */
  private nextRenewal(): number {
    const dueAfterMs = this.leaseMs / RENEWALS_PER_LEASE;
    return this.clock.now() + dueAfterMs - Math.random() * (dueAfterMs / 10);
  }
}
