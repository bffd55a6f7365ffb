import { arrivedReplies, type ClockReading, randomMs, readClocks } from '../../common/clock.js';
import { Linked } from '../../common/collections.js';
import { inBackground, type NeverRejects } from '../../common/promises.js';
import type { Grant, ReleaseRequest, RenewalReply } from '../../port/lock-store.js';
import { LockConfigurationError, LockStoreError } from '../../port/lock.errors.js';
import { leaseMargin, leaseValidity } from '../../port/timing.js';
import type { LockRuntime } from './lock-runtime.js';
import type { Owner } from './owner.js';
import type { StartedRenewal } from './watchdog.js';

/** A lease is renewed after a third of the time that the last reply left it, so that two renewals in a row may fail. */
export const RENEWALS_PER_LEASE = 3;
/** During local hand-offs a process renews at least this often, because the reply says whether the key is contended. */
export const MAX_SILENCE_MS = 1000;
/** A fixed lease is checked this often, because no watchdog notices that the machine was suspended. */
const WAKE_CHECK_MS = 1000;
const RENEWAL_RETRY_MS = { least: 100, spread: 200 };
const UNSURE =
  'its machine was suspended, or its clock was set, and the store has not said since that it is still held';
const UNANSWERED = 'the store has not answered its last renewal yet';

/**
 * The lease of one grant: how long its owner may believe in it, the fencing tokens that are left of it, and its renewal.
 *
 * Validity counts from the moment the request was sent, on the monotonic clock: the store may have started the lease at
 * any time after that, so the holder gives up no later than the store does. A renewal that fails does not move it.
 *
 * The monotonic clock stands still while the machine is suspended. So validity counts by the time of day, too, and the
 * shorter of both is believed. A lease that has expired by the time of day alone is `unsure`: the store must be asked.
 */
export class Lease extends Linked {
  /** The store has replied to a request for this lease. Until then it is the initial lease of a notification. */
  isConfirmed: boolean;
  /** When the store's last reply arrived. */
  private answeredAt: number;
  /** Why the last renewal got no reply, for the event `suspended`. `undefined` after a reply. */
  suspendedBy: Error | undefined;
  leaseMs: number;
  private validUntil: number;
  private renewAt: number;
  private nextToken: number;
  private lastToken: number;
  /** How far the time of day was ahead of the monotonic clock when the request was sent that the store answered last. */
  private wallClockOffset: number;
  /** Renewals without a reply so far. */
  private inFlight = 0;
  /** How often a caller has asked for another length or claim. */
  private resets = 0;
  /**
   * The end of the lease if the store set the present length when a caller asked for it. A reply for another length counts no
   * longer than that.
   */
  private surelyUntil = Infinity;
  /** The end of a fixed lease as its first caller was promised it. Only `reset` moves it. */
  private fixedUntil = Infinity;
  private cancelExpiry: (() => void) | undefined;
  private cancelRetry: (() => void) | undefined;
  private isStopped = false;

  /** @param wallClockOffset of the moment at which the request for the grant was sent */
  constructor(
    private readonly owner: LeaseOwner,
    private readonly grant: Grant,
    now: number,
    wallClockOffset: number,
  ) {
    super();
    this.isConfirmed = grant.confirmed;
    this.leaseMs = owner.terms.leaseMs;
    this.nextToken = grant.token;
    this.lastToken = grant.lastToken;
    this.validUntil = grant.validUntil;
    this.answeredAt = now;
    this.wallClockOffset = wallClockOffset;
    this.renewAt = this.nextRenewal(now);
  }

  /** Starts the watchdog, or the timer of a fixed lease. Called when a caller is admitted. */
  start(): void {
    const { terms, runtime } = this.owner;
    if (terms.watched) return runtime.watchdog.watch(this);
    this.fixedUntil = leaseValidity(runtime.clock.now(), this.leaseMs);
    this.armExpiry();
  }

  stop(): void {
    this.isStopped = true;
    this.cancelExpiry?.();
    this.cancelRetry?.();
    this.owner.runtime.watchdog.unwatch(this);
  }

  // --- validity -------------------------------------------------------------------------------------------------

  state({ now, wallClockOffset } = this.readClocks()): 'valid' | 'unsure' | 'expired' {
    if (now >= this.validUntil) return 'expired';
    return this.validUntil - now > wallClockOffset - this.wallClockOffset ? 'valid' : 'unsure';
  }

  /** How much longer the lease may be believed in, by both clocks. */
  measureValidity({ now, wallClockOffset } = this.readClocks()): number {
    return Math.max(0, this.validUntil - now - Math.max(0, wallClockOffset - this.wallClockOffset));
  }

  /** The remaining lease by the monotonic clock alone. */
  measureLeft(): number {
    return Math.max(0, this.validUntil - this.now);
  }

  // --- tokens ---------------------------------------------------------------------------------------------------

  /** The first token, which names the grant. */
  get token(): number {
    return this.grant.token;
  }

  /** No caller has been admitted under this grant yet. */
  get hasAdmittedNobody(): boolean {
    return this.nextToken === this.grant.token;
  }

  get hasToken(): boolean {
    return this.nextToken <= this.lastToken;
  }

  takeToken(): number {
    return this.nextToken++;
  }

  /** The last token that was used, for the store to take back the rest. */
  get used(): ReleaseRequest['used'] {
    const last = this.nextToken - 1;
    if (this.hasAdmittedNobody || last >= this.lastToken) return undefined;
    return { token: last, lastToken: this.lastToken };
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
    const { now, wallClockOffset } = this.readClocks();
    return now + Math.max(0, wallClockOffset - this.wallClockOffset) >= this.renewAt;
  }

  /** The caller sends the renewal at once, because the validity of its reply counts from now. */
  startRenewal(leaseMs = this.renewedMs): StartedRenewal {
    const { key, id: owner, claim } = this.owner;
    const { token, lastToken } = this;
    const { now, wallClockOffset } = this.readClocks();
    const asked = { sentAt: now, wallClockOffset, resets: this.resets, endsAt: leaseValidity(now, leaseMs) };
    this.inFlight += 1;
    const renewal = { key, owner, claim, leaseMs, token, lastToken };
    return { renewal, onReply: (reply) => this.onReply(reply, asked) };
  }

  renewNow(): void {
    if (!this.isRenewing) inBackground(this.renew() as NeverRejects<RenewalReply>);
  }

  /** Called before a local hand-off. */
  renewIfStale(now: number): void {
    if (now - this.answeredAt > MAX_SILENCE_MS) this.renewNow();
  }

  /** The store has granted the lock again under the same token, maybe before it was asked for another length. */
  onGrantedAgain(grant: Grant): void {
    // The request may have asked for more tokens than the one whose notification was here first.
    this.lastToken = Math.max(this.lastToken, grant.lastToken);
    const validUntil = Math.min(grant.validUntil, this.fixedUntil, this.surelyUntil);
    // The store keeps the lease for longer, by itself. Renewals go on as they are due.
    if (this.owner.isHeld && this.isConfirmed) this.validUntil = Math.max(this.validUntil, validUntil);
    else {
      this.believe(validUntil);
      this.owner.onConfirmed();
    }
  }

  private get isRenewing(): boolean {
    return this.inFlight > 0;
  }

  /** A fixed lease whose caller has been admitted is renewed for the rest of its time, so that its end does not move. */
  private get renewedMs(): number {
    const { leaseMs, fixedUntil } = this;
    if (fixedUntil === Infinity) return leaseMs;
    return Math.max(1, Math.ceil(fixedUntil - this.now + this.marginMs));
  }

  private async renew(leaseMs?: number): Promise<RenewalReply> {
    const { renewal, onReply } = this.startRenewal(leaseMs);
    const replies = await this.owner.runtime.watchdog.send([renewal]);
    const reply = replies[0] as RenewalReply;
    onReply(reply);
    return reply;
  }

  private onReply(reply: RenewalReply, asked: AskedRenewal): void {
    this.inFlight -= 1;
    if (this.isStopped) return;
    switch (reply.kind) {
      case 'renewed':
        return this.onRenewed(reply, asked);
      case 'unknown':
        return this.onUnanswered(reply.error);
      case 'lost':
        return this.owner.onLost('taken', 'the store says that it is not held by us any more');
      default:
        reply satisfies never;
    }
  }

  private onRenewed({ waiting, validUntil }: Renewed, asked: AskedRenewal): void {
    const { owner } = this;
    this.prolong(Math.min(validUntil, this.fixedUntil), asked);
    owner.contention.onWaitingCount(waiting, asked.sentAt);
    // A listener of an event may have released the lock.
    if (this.isStopped) return;
    owner.onConfirmed();
    if (!owner.terms.watched && !this.isStopped) this.armExpiry();
  }

  /** Believes in a renewal, which the store may have executed before it was asked for another length. */
  private prolong(validUntil: number, { wallClockOffset, resets, endsAt }: AskedRenewal): void {
    const isOfPresentLength = resets === this.resets;
    if (isOfPresentLength && resets > 0) this.surelyUntil = endsAt;
    // The new wallClockOffset must not lengthen the present validity, which was measured from the earlier one.
    this.validUntil -= Math.max(0, wallClockOffset - this.wallClockOffset);
    this.wallClockOffset = wallClockOffset;
    this.believe(isOfPresentLength ? validUntil : Math.min(validUntil, this.surelyUntil));
  }

  private believe(validUntil: number): void {
    const isResumed = this.suspendedBy !== undefined;
    this.validUntil = Math.max(this.validUntil, validUntil);
    this.isConfirmed = true;
    this.suspendedBy = undefined;
    this.answeredAt = this.now;
    this.renewAt = this.nextRenewal(this.answeredAt);
    if (!isResumed) return;
    const { key, id: owner, terms, runtime } = this.owner;
    if (terms.watched) this.cancelExpiry?.();
    runtime.emit({ type: 'resumed', key, owner });
  }

  private onUnanswered(error: LockStoreError): void {
    const { owner } = this;
    const { key, id, runtime } = owner;
    const validForMs = this.measureValidity();
    const isSuspendedNow = !this.suspendedBy;
    this.suspendedBy = error;
    this.renewAt = this.now + randomMs(runtime.chance, RENEWAL_RETRY_MS);
    if (isSuspendedNow) runtime.emit({ type: 'suspended', key, owner: id, validForMs, error });
    // A listener of the event may have released the lock.
    if (this.isStopped) return;
    // An initial lease may expire before the watchdog's next round, which comes up to 1 s later.
    if (!owner.isHeld || !this.isConfirmed) this.retryWhenDue();
    if (owner.isHeld) this.armExpiry();
    else owner.onUnanswered(error);
  }

  private retryWhenDue(): void {
    this.cancelRetry?.();
    const dueInMs = Math.max(0, Math.ceil(this.renewAt - this.now));
    this.cancelRetry = this.owner.runtime.clock.after(dueInMs, () => this.renewNow());
  }

  /**
   * When the next renewal is due. A reply leaves less than the lease if it was long under way, or if the session of the
   * client (etcd, ZooKeeper) may end before the lease. The moment is random, so that leases that were granted together are
   * not all renewed together.
   */
  private nextRenewal(now: number): number {
    const leftMs = Math.max(0, this.validUntil - now) + leaseMargin(this.leaseMs);
    const dueAfterMs = Math.min(this.leaseMs, leftMs) / RENEWALS_PER_LEASE;
    return now + dueAfterMs - this.owner.runtime.chance.random() * (dueAfterMs / 10);
  }

  // --- another length or claim ------------------------------------------------------------------------------------

  async extend(ms: number): Promise<void> {
    const { key, terms } = this.owner;
    if (terms.watched) {
      throw new LockConfigurationError(
        `"${key}" is renewed by the watchdog: extend() is for locks with a leaseMs.`,
      );
    }
    await this.reset(ms, `extend "${key}" by ${ms} ms`);
  }

  /** Asks the store for the owner's present claim. The end of a fixed lease does not move. */
  stepDown(): Promise<void> {
    const { key, terms } = this.owner;
    const leaseMs = terms.watched ? this.leaseMs : Math.max(1, Math.floor(this.measureValidity()));
    return this.reset(leaseMs, `downgrade "${key}"`);
  }

  /** Until the reply only the shorter of both lengths is believed. @throws LockStoreError without a reply */
  private async reset(leaseMs: number, what: string): Promise<void> {
    const { key, terms } = this.owner;
    const before = this.fixedUntil;
    const end = leaseValidity(this.now, leaseMs);
    const asked = terms.watched ? Infinity : end;
    this.fixedUntil = asked;
    this.leaseMs = leaseMs;
    this.resets += 1;
    this.surelyUntil = Math.min(this.surelyUntil, end);
    this.validUntil = Math.min(this.validUntil, end);
    const reply = await this.renew(leaseMs);
    if (reply.kind !== 'unknown') return;
    // Unless it was asked for another length meanwhile, it ends by the shorter of both.
    if (this.fixedUntil === asked) this.fixedUntil = Math.min(before, asked);
    const left = Math.round(this.measureValidity());
    const message = `Could not ${what}: ${reply.error.message}. It is valid for another ${left} ms.`;
    throw new LockStoreError(message, key, 'unknown', { cause: reply.error });
  }

  // --- end of the lease -------------------------------------------------------------------------------------------

  /** The timer notices an expired lease early. Each use of a hold checks the lease too. */
  private armExpiry(): void {
    const { clock } = this.owner.runtime;
    this.cancelExpiry?.();
    const ms = Math.min(Math.ceil(this.measureLeft()), clock.timeOfDay ? WAKE_CHECK_MS : Infinity);
    this.cancelExpiry = clock.after(ms, () => {
      this.noticeExpiry();
      // A timer may fire a moment before the clock reaches its time.
      if (this.owner.isHeld && !this.isStopped) this.armExpiry();
    });
  }

  /** @returns why the lease must not be believed in before `whenSure` has resolved */
  doubtReason(at?: ClockReading): string | undefined {
    if (!this.owner.isHeld) return undefined;
    const state = this.state(at);
    if (state === 'unsure') return UNSURE;
    return state === 'expired' && this.isRenewing ? UNANSWERED : undefined;
  }

  /** Resolves when it is known whether the lease is over: by the replies that have arrived, or by asking the store. */
  async whenSure(): Promise<void> {
    if (this.state() !== 'unsure') return arrivedReplies(this.owner.runtime.clock);
    await this.renew();
    if (this.owner.isHeld && this.state() === 'unsure') this.owner.onLost('expired', UNSURE);
  }

  noticeExpiry(at?: ClockReading): void {
    if (!this.owner.isHeld) return;
    const state = this.state(at);
    if (state === 'expired') this.owner.onLost('expired', this.expiryDetail());
    else if (state === 'unsure') this.renewNow();
  }

  /** How much longer the store keeps the lease than its holder believes in it, in ms. */
  get marginMs(): number {
    return leaseMargin(this.leaseMs);
  }

  private expiryDetail(): string {
    const { leaseMs, answeredAt, suspendedBy } = this;
    if (!this.owner.terms.watched)
      return `its lease of ${leaseMs} ms ran out (raise leaseMs, or leave it out, and the watchdog renews the lease)`;
    const since = Math.round(this.now - answeredAt);
    return `no renewal succeeded since ${since} ms${suspendedBy ? ` (last error: ${suspendedBy.message})` : ''}`;
  }

  private get now(): number {
    return this.owner.runtime.clock.now();
  }

  private readClocks(): ClockReading {
    return readClocks(this.owner.runtime.clock);
  }
}

/** The members of `Owner` that a lease calls, so that a test can stand in for an owner. */
type LeaseOwner = Pick<
  Owner,
  'key' | 'id' | 'claim' | 'terms' | 'isHeld' | 'onConfirmed' | 'contention' | 'onUnanswered' | 'onLost'
> & { readonly runtime: Pick<LockRuntime, 'clock' | 'chance' | 'watchdog' | 'emit'> };

/** The lease as it was when a renewal was sent. `prolong` compares the reply with it. */
interface AskedRenewal {
  readonly sentAt: number;
  readonly wallClockOffset: number;
  /** `Lease.resets` when it was sent. */
  readonly resets: number;
  /** The end of the lease that the renewal asks for. */
  readonly endsAt: number;
}

type Renewed = Extract<RenewalReply, { kind: 'renewed' }>;
