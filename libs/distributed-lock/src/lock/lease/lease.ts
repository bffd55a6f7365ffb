import { randomMs, type Chance } from '../../time/chance.js';
import { readClocks, type Clock, type ClockReading } from '../../time/clock.js';
import type { ReleaseRequest, Grant } from '../../port/lock-store.js';
import { leaseMargin, leaseValidity } from '../../port/lease-validity.js';

/** A lease is renewed after a third of the time that the last answer left it, so that two renewals in a row may fail. */
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
  answeredAt: number;
  /** Why the last renewal got no answer, for the event `suspended`. `undefined` after an answer. */
  suspendedBy: Error | undefined;
  private validUntil: number;
  private renewAt: number;
  private nextToken: number;
  /** Renewals without a reply so far. */
  private inFlight = 0;
  /** How often a caller has asked for another length or claim. */
  private resets = 0;
  /**
   * The end of the lease if the store set the present length when a caller asked for it. An answer for another length counts no
   * longer than that.
   */
  private surelyUntil = Infinity;

  constructor(
    private readonly grant: Grant,
    now: number,
    public leaseMs: number,
    private readonly clock: Clock,
    private readonly chance: Chance,
    /** How far the time of day was ahead of the monotonic clock when the request was sent that the store answered last. */
    private lead: number,
  ) {
    this.isConfirmed = grant.confirmed;
    this.nextToken = grant.token;
    this.validUntil = grant.validUntil;
    this.answeredAt = now;
    this.renewAt = this.nextRenewal(now);
  }

  // --- validity -------------------------------------------------------------------------------------------------

  state({ now, lead } = readClocks(this.clock)): 'valid' | 'unsure' | 'expired' {
    if (now >= this.validUntil) return 'expired';
    return this.validUntil - now > lead - this.lead ? 'valid' : 'unsure';
  }

  /** How much longer the lease may be believed in, by both clocks. */
  measureValidity({ now, lead } = readClocks(this.clock)): number {
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

  /** All tokens of the grant. A renewal names them. */
  get grantedTokens(): Pick<Grant, 'token' | 'lastToken'> {
    const { token, lastToken } = this.grant;
    return { token, lastToken };
  }

  /** No caller has been admitted under this grant yet. */
  get hasAdmittedNobody(): boolean {
    return this.nextToken === this.grant.token;
  }

  get hasToken(): boolean {
    return this.nextToken <= this.grant.lastToken;
  }

  takeToken(): number {
    return this.nextToken++;
  }

  /** The last token that was used, for the store to take back the rest. */
  get used(): ReleaseRequest['used'] {
    const last = this.nextToken - 1;
    if (this.hasAdmittedNobody || last >= this.grant.lastToken) return undefined;
    return { token: last, lastToken: this.grant.lastToken };
  }

  /**
   * A local hand-off is safe: a token and half of the lease are left, and the last renewal was answered. An
   * unconfirmed lease is confirmed first.
   */
  mayHandOff(at: ClockReading): boolean {
    if (!this.hasToken || this.suspendedBy) return false;
    return !this.isConfirmed || this.measureValidity(at) >= this.leaseMs / 2;
  }

  // --- renewal --------------------------------------------------------------------------------------------------

  isRenewalDue(): boolean {
    if (this.isRenewing) return false;
    const { now, lead } = readClocks(this.clock);
    return now + Math.max(0, lead - this.lead) >= this.renewAt;
  }

  /** By the monotonic clock alone. */
  get renewalDueInMs(): number {
    return Math.max(0, Math.ceil(this.renewAt - this.clock.now()));
  }

  get isRenewing(): boolean {
    return this.inFlight > 0;
  }

  /** A renewal is about to be sent. `onReply` must follow. */
  startRenewal(leaseMs: number): AskedRenewal {
    const { now, lead } = readClocks(this.clock);
    this.inFlight += 1;
    return { sentAt: now, lead, resets: this.resets, endsAt: leaseValidity(now, leaseMs) };
  }

  onReply(): void {
    this.inFlight -= 1;
  }

  /** A caller is about to ask for another length. Until the answer only the shorter of both is believed. */
  startReset(leaseMs: number): void {
    this.leaseMs = leaseMs;
    this.resets += 1;
    const end = leaseValidity(this.clock.now(), leaseMs);
    this.surelyUntil = Math.min(this.surelyUntil, end);
    this.validUntil = Math.min(this.validUntil, end);
  }

  /** The store has renewed the lease, maybe before it was asked for another length. */
  onRenewed(validUntil: number, { lead, resets, endsAt }: AskedRenewal): void {
    const isOfPresentLength = resets === this.resets;
    if (isOfPresentLength && resets > 0) this.surelyUntil = endsAt;
    // The new lead must not lengthen the present validity, which was measured from the earlier one.
    this.validUntil -= Math.max(0, lead - this.lead);
    this.lead = lead;
    this.believe(isOfPresentLength ? validUntil : Math.min(validUntil, this.surelyUntil));
  }

  /** The store has granted the lock again under the same token, maybe before it was asked for another length. */
  onGrantedAgain(validUntil: number): void {
    this.believe(Math.min(validUntil, this.surelyUntil));
  }

  private believe(validUntil: number): void {
    this.validUntil = Math.max(this.validUntil, validUntil);
    this.isConfirmed = true;
    this.suspendedBy = undefined;
    this.answeredAt = this.clock.now();
    this.renewAt = this.nextRenewal(this.answeredAt);
  }

  /** The store keeps the lease for longer, by itself. Renewals go on as they are due. */
  onProlonged(validUntil: number): void {
    this.validUntil = Math.max(this.validUntil, Math.min(validUntil, this.surelyUntil));
  }

  onNoAnswer(error: Error): void {
    this.suspendedBy = error;
    this.renewAt = this.clock.now() + randomMs(this.chance, RENEWAL_RETRY_MS);
  }

  /**
   * When the next renewal is due. An answer leaves less than the lease if it was long under way, or if the session of the
   * client (etcd, ZooKeeper) may end before the lease. The moment is random, so that leases that were granted together are
   * not all renewed together.
   */
  private nextRenewal(now: number): number {
    const leftMs = Math.max(0, this.validUntil - now) + leaseMargin(this.leaseMs);
    const dueAfterMs = Math.min(this.leaseMs, leftMs) / RENEWALS_PER_LEASE;
    return now + dueAfterMs - this.chance.random() * (dueAfterMs / 10);
  }
}

/** A renewal that was sent, with what its reply is compared with. */
export interface AskedRenewal {
  readonly sentAt: number;
  readonly lead: number;
  readonly resets: number;
  /** The end of the lease that the renewal asks for. */
  readonly endsAt: number;
}
