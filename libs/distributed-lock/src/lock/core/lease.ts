import { type Clock, type ClockReading, nextTurn, randomMs } from '../../common/clock.js';
import { Linked } from '../../common/collections.js';
import { ignoreFailure } from '../../common/promises.js';
import type { Grant, ReleaseRequest, RenewalReply } from '../../port/lock-store.js';
import { LockConfigurationError, LockStoreError } from '../../port/lock.errors.js';
import { leaseMargin, leaseValidity } from '../../port/timing.js';
import type { Owner } from './owner.js';

/** A lease is renewed after a third of the time that the last reply left it. So two renewals in a row may fail before it is in danger. */
export const RENEWALS_PER_LEASE = 3;
/** If the store's last reply is older than this, the owner renews before the next local hand-off. */
export const MAX_SILENCE_MS = 1000;
/** The timer of a lease fires at least this often, to look at the time of day: a suspended machine stops timers. */
const WAKE_CHECK_MS = 1000;
const RENEWAL_RETRY_MS = { least: 100, spread: 200 };
const UNSURE =
  'its machine was suspended, or its clock was set, and the store has not said since that it is still held';
const UNANSWERED = 'the store has not answered its last renewal yet';

/**
 * The lease of one grant: how long its owner may believe that it has the lock, which fencing tokens are left, and the renewal.
 *
 * 1. Validity counts from the moment the request was sent, on the monotonic clock. The store may have started the lease at any time
 *    after that, so the holder gives up no later than the store does.
 * 2. A successful renewal moves the end in the same way, counted from when the renewal was sent. A failed renewal does not move it.
 * 3. The monotonic clock stands still while the machine is suspended. So the time of day counts, too, and the clock that leaves less
 *    time is believed.
 * 4. A lease that has expired by the monotonic clock is lost. One that has expired by the time of day alone is `unsure`, because
 *    somebody may have set that clock: the holder asks the store before it goes on.
 */
export class Lease extends Linked {
  /** Whether the store has replied to a request for this lease. Otherwise this is the initial lease of a grant by notification. */
  isConfirmed: boolean;
  /** When the store last confirmed the lease, on the monotonic clock. */
  private answeredAt: number;
  /** The error of the last renewal, if it got no reply. From then until a renewal succeeds, the events call the lease `suspended`. */
  renewalError: Error | undefined;
  leaseMs: number;
  /** How much of an initial lease was left when the notification arrived, in ms. */
  private readonly initialMs: number;
  private validUntil: number;
  private renewAt: number;
  /** The first fencing token of the grant. It identifies the grant in renewals. */
  readonly token: number;
  private nextToken: number;
  private lastToken: number;
  /**
   * How far the time of day was ahead of the monotonic clock when we sent the request that the store answered last. If it is further
   * ahead now, the machine was suspended meanwhile, or its clock was set.
   */
  private wallClockOffset: number;
  /** How many renewals have no reply yet. */
  private inFlight = 0;
  /** How many times a caller has changed the length of the lease (`extend`) or its claim (`downgrade`). */
  private resets = 0;
  /**
   * The earliest `fixedUntil` that the store may have: the last one that it confirmed, or an earlier end that was asked for since then. The
   * reply to a request that was sent before the last `extend` or `downgrade` cannot prove a later end, because the store may have executed
   * the others after that request.
   */
  private surelyUntil = Infinity;
  /**
   * The end of a fixed lease as it was promised to the first caller. Renewals do not move it, only `reset` does. `Infinity` under the
   * watchdog.
   */
  private fixedUntil = Infinity;
  /** Whether the watchdog renews this lease. Otherwise it is fixed: from the start, or since `keepFor`. */
  private watched: boolean;
  private cancelExpiry: (() => void) | undefined;
  private cancelRetry: (() => void) | undefined;
  private isStopped = false;

  constructor(
    readonly owner: Owner,
    grant: Grant,
    now: number,
  ) {
    super();
    this.isConfirmed = grant.confirmed;
    this.leaseMs = owner.terms.leaseMs;
    this.watched = owner.terms.watched;
    this.token = this.nextToken = grant.token;
    this.lastToken = grant.lastToken;
    this.validUntil = grant.validUntil;
    this.initialMs = grant.validUntil - now;
    this.answeredAt = now;
    this.wallClockOffset = owner.acquireLoop.asked.wallClockOffset;
    this.renewAt = this.nextRenewal(now);
  }

  /** Starts the watchdog, or the timer of a fixed lease. Called when a caller is admitted. */
  start(): void {
    const { runtime } = this.owner;
    if (this.watched) return runtime.watchdog.watch(this);
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

  state({ now, wallClockOffset } = this.owner.readClocks()): 'valid' | 'unsure' | 'expired' {
    if (now >= this.validUntil) return 'expired';
    return this.validUntil - now > wallClockOffset - this.wallClockOffset ? 'valid' : 'unsure';
  }

  /** How much longer the holder may believe in the lease, by the clock that leaves less time. In ms. */
  measureValidity({ now, wallClockOffset } = this.owner.readClocks()): number {
    return Math.max(0, this.validUntil - now - Math.max(0, wallClockOffset - this.wallClockOffset));
  }

  /** The rest of the lease by the monotonic clock alone, in ms. */
  measureLeft(): number {
    return Math.max(0, this.validUntil - this.owner.now);
  }

  // --- tokens ---------------------------------------------------------------------------------------------------

  /** No caller has been admitted under this grant yet, so losing it harms nobody. */
  get hasAdmittedNobody(): boolean {
    return this.nextToken === this.token;
  }

  get hasToken(): boolean {
    return this.nextToken <= this.lastToken;
  }

  takeToken(): number {
    return this.nextToken++;
  }

  /**
   * The tokens that the release names to the store: the last one used and the last one reserved, so that the store takes back those in
   * between. `undefined` if there are none.
   */
  get used(): ReleaseRequest['used'] {
    const last = this.nextToken - 1;
    if (this.hasAdmittedNobody || last >= this.lastToken) return undefined;
    return { token: last, lastToken: this.lastToken };
  }

  /**
   * Whether a local hand-off is safe for the lease: the watchdog renews it, a token is left, the last renewal was answered, and at least
   * half of the lease is left; before the confirmation, half of the initial lease.
   */
  mayHandOff(at: ClockReading): boolean {
    if (!this.hasToken || this.renewalError || !this.watched) return false;
    return this.measureValidity(at) >= (this.isConfirmed ? this.leaseMs : this.initialMs) / 2;
  }

  // --- renewal --------------------------------------------------------------------------------------------------

  isRenewalDue(): boolean {
    if (this.inFlight > 0) return false;
    const { now, wallClockOffset } = this.owner.readClocks();
    return now + Math.max(0, wallClockOffset - this.wallClockOffset) >= this.renewAt;
  }

  /**
   * Prepares a renewal. The caller must send it in this turn of the event loop: the renewal that confirms a grant has to be on its way before
   * the work begins, because that work may block the event loop for longer than the initial lease. So nothing from here to the socket may
   * `await`.
   */
  startRenewal(leaseMs = this.renewedMs) {
    const { key, id: owner, claim } = this.owner;
    const { token, lastToken } = this;
    const { now, wallClockOffset } = this.owner.readClocks();
    const asked = { sentAt: now, wallClockOffset, resets: this.resets };
    this.inFlight += 1;
    const renewal = { key, owner, claim, leaseMs, token, lastToken };
    return { renewal, onReply: (reply: RenewalReply) => this.onReply(reply, asked) };
  }

  renewNow(): void {
    if (this.inFlight === 0) ignoreFailure(this.renew());
  }

  /** Renews if the store's last reply is old. Called before a local hand-off, because the notification that others wait may be lost. */
  renewIfStale(now: number): void {
    if (now - this.answeredAt > MAX_SILENCE_MS) this.renewNow();
  }

  /**
   * Called when a further grant arrives under the same token, for example the reply to a recheck after the notification. The store may have
   * sent it before an `extend`, so the bounds of that `extend` apply to it, too.
   */
  onGrantedAgain(grant: Grant): void {
    // The second grant may be for a request that reserved more tokens than the first.
    this.lastToken = Math.max(this.lastToken, grant.lastToken);
    const validUntil = Math.min(grant.validUntil, this.fixedUntil, this.surelyUntil);
    // If the lease is confirmed and in use, only its end moves. The next renewal stays scheduled as it is.
    if (this.owner.isHeld && this.isConfirmed) this.validUntil = Math.max(this.validUntil, validUntil);
    else {
      this.believe(validUntil);
      this.owner.onConfirmed();
    }
  }

  /** The length to ask for in a renewal. For a fixed lease that is the time up to its promised end, so that the end does not move. */
  private get renewedMs(): number {
    const { leaseMs, fixedUntil } = this;
    if (fixedUntil === Infinity) return leaseMs;
    return Math.max(1, Math.ceil(fixedUntil - this.owner.now + this.marginMs));
  }

  private async renew(leaseMs?: number): Promise<RenewalReply> {
    const [reply] = await this.owner.runtime.watchdog.renew([this], leaseMs);
    return reply as RenewalReply;
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

  private onRenewed(reply: Extract<RenewalReply, { kind: 'renewed' }>, asked: AskedRenewal): void {
    const { owner } = this;
    const { waiting, validUntil } = reply;
    this.prolong(Math.min(validUntil, this.fixedUntil), asked);
    owner.contention.onWaitingCount(waiting, asked.sentAt);
    // A listener of an event may have released the lock.
    if (this.isStopped) return;
    owner.onConfirmed();
    if (!this.watched && !this.isStopped) this.armExpiry();
  }

  /**
   * Moves the end of the lease after a renewal. If the length was changed while the renewal was in flight, the reply counts only up to
   * `surelyUntil`.
   */
  private prolong(validUntil: number, { wallClockOffset, resets }: AskedRenewal): void {
    if (resets === this.resets) this.surelyUntil = this.fixedUntil;
    // Validity is `validUntil` minus what the time of day has gained since `wallClockOffset` was read. A new offset forgets that gain, and
    // so would make the validity longer. Subtract the gain from `validUntil` first.
    this.validUntil -= Math.max(0, wallClockOffset - this.wallClockOffset);
    this.wallClockOffset = wallClockOffset;
    this.believe(Math.min(validUntil, this.surelyUntil));
  }

  private believe(validUntil: number): void {
    const isResumed = this.renewalError !== undefined;
    this.validUntil = Math.max(this.validUntil, validUntil);
    this.isConfirmed = true;
    this.renewalError = undefined;
    this.answeredAt = this.owner.now;
    this.renewAt = this.nextRenewal(this.answeredAt);
    if (!isResumed) return;
    const { key, id: owner, runtime } = this.owner;
    if (this.watched) this.cancelExpiry?.();
    runtime.emit({ type: 'resumed', key, owner });
  }

  private onUnanswered(error: LockStoreError): void {
    const { owner } = this;
    const { key, id, runtime } = owner;
    const validForMs = this.measureValidity();
    const isSuspendedNow = !this.renewalError;
    this.renewalError = error;
    this.renewAt = this.owner.now + randomMs(runtime.chance, RENEWAL_RETRY_MS);
    if (isSuspendedNow) runtime.emit({ type: 'suspended', key, owner: id, validForMs, error });
    // A listener of the event may have released the lock.
    if (this.isStopped) return;
    // An initial lease may expire before the watchdog's next round, which comes up to 1 s later.
    if (!owner.isHeld || !this.isConfirmed) {
      this.cancelRetry?.();
      const dueInMs = Math.max(0, Math.ceil(this.renewAt - this.owner.now));
      this.cancelRetry = runtime.clock.after(dueInMs, () => this.renewNow());
    }
    if (owner.isHeld) this.armExpiry();
    else owner.onUnanswered(error);
  }

  /**
   * When the next renewal is due: after a third of the time that is left. That may be less than the full lease, because the reply took
   * long, or because the session of the client (etcd, ZooKeeper) ends sooner. Up to a tenth is subtracted at random, so that leases that
   * were granted together are not all renewed together.
   */
  private nextRenewal(now: number): number {
    const leftMs = Math.max(0, this.validUntil - now) + leaseMargin(this.leaseMs);
    const dueAfterMs = Math.min(this.leaseMs, leftMs) / RENEWALS_PER_LEASE;
    return now + dueAfterMs - this.owner.runtime.chance.random() * (dueAfterMs / 10);
  }

  // --- another length or claim ------------------------------------------------------------------------------------

  /** @throws LockConfigurationError for a lease that the watchdog renews */
  assertFixed(): void {
    if (!this.watched) return;
    throw new LockConfigurationError(
      `"${this.owner.key}" is renewed by the watchdog: extend() is for locks with a leaseMs, and for others after keepFor(ms).`,
    );
  }

  extend(ms: number): Promise<void> {
    return this.reset(ms, `extend "${this.owner.key}" by ${ms} ms`);
  }

  /** Makes the lease a fixed one that ends in `ms`. */
  keepFor(ms: number): Promise<void> {
    const { key, runtime } = this.owner;
    this.watched = false;
    runtime.watchdog.unwatch(this);
    return this.reset(ms, `keep "${key}" for ${ms} ms`);
  }

  /** Asks the store to downgrade the lock to the owner's new claim. The end of a fixed lease does not move. */
  stepDown(): Promise<void> {
    const { key } = this.owner;
    const leaseMs = this.watched ? this.leaseMs : Math.max(1, Math.floor(this.measureValidity()));
    return this.reset(leaseMs, `downgrade "${key}"`);
  }

  /**
   * Asks the store for another length of the lease. Until the reply comes, the holder believes in the shorter of both lengths.
   *
   * @throws LockStoreError if the store does not reply
   */
  private async reset(leaseMs: number, what: string): Promise<void> {
    const { key } = this.owner;
    const before = this.fixedUntil;
    const end = leaseValidity(this.owner.now, leaseMs);
    const asked = this.watched ? Infinity : end;
    this.fixedUntil = asked;
    this.leaseMs = leaseMs;
    this.resets += 1;
    this.surelyUntil = Math.min(this.surelyUntil, before);
    this.validUntil = Math.min(this.validUntil, end);
    if (!this.watched) this.armExpiry();
    const reply = await this.renew(leaseMs);
    if (reply.kind !== 'unknown') return;
    // The store may or may not have set the new length, so the lease ends by the shorter one. If earlier `reset`s have had no reply either,
    // by the shortest of all. If another `reset` came meanwhile, its end counts.
    if (this.fixedUntil === asked) this.fixedUntil = Math.min(this.surelyUntil, asked);
    const left = Math.round(this.measureValidity());
    const message = `Could not ${what}: ${reply.error.message}. It is valid for another ${left} ms.`;
    throw new LockStoreError(message, key, 'unknown', { cause: reply.error });
  }

  // --- end of the lease -------------------------------------------------------------------------------------------

  /**
   * Sets the timer that notices the end of the lease. It only makes the notice prompt: each use of a hold checks the lease, too. Under the
   * watchdog there is no such timer until a renewal gets no reply, because the next renewal comes long before the end.
   */
  private armExpiry(): void {
    const { clock } = this.owner.runtime;
    this.cancelExpiry?.();
    const ms = Math.min(Math.ceil(this.measureLeft()), clock.timeOfDay ? WAKE_CHECK_MS : Infinity);
    this.cancelExpiry = clock.after(ms, () => {
      this.owner.noticeExpiry();
      // The lease may not be over yet: the timer fires a moment early, or fired only to check the time of day. Then set it again.
      if (this.owner.isHeld && !this.isStopped) this.armExpiry();
    });
  }

  /** @returns why the holder must wait for `whenSure` before it relies on the lock; `undefined` if there is no doubt */
  doubtReason(at?: ClockReading): string | undefined {
    if (!this.owner.isHeld) return undefined;
    const state = this.state(at);
    if (state === 'unsure') return UNSURE;
    return state === 'expired' && this.inFlight > 0 ? UNANSWERED : undefined;
  }

  /**
   * Resolves when it is certain whether the lease is over. If the time of day casts doubt on it, this asks the store. Otherwise it only
   * waits until the process has handled the replies that have already arrived: one of them may renew the lease.
   */
  async whenSure(): Promise<void> {
    if (this.isStopped || this.state() !== 'unsure') return arrivedReplies(this.owner.runtime.clock);
    await this.renew();
    if (this.owner.isHeld && this.state() === 'unsure') this.owner.onLost('expired', UNSURE);
  }

  /** How much longer the store keeps the lease than its holder believes in it, in ms. */
  get marginMs(): number {
    return leaseMargin(this.leaseMs);
  }

  /** Why the lease has run out, for messages. */
  expiryDetail(): string {
    const { leaseMs, answeredAt, renewalError } = this;
    if (!this.watched)
      return `its lease of ${leaseMs} ms ran out (raise leaseMs, or leave it out, and the watchdog renews the lease)`;
    const since = Math.round(this.owner.now - answeredAt);
    return `no renewal succeeded since ${since} ms${renewalError ? ` (last error: ${renewalError.message})` : ''}`;
  }
}

/** The state of the lease when a renewal was sent. `prolong` needs it to judge the reply. */
interface AskedRenewal {
  readonly sentAt: number;
  readonly wallClockOffset: number;
  /** `Lease.resets` when the renewal was sent. If it has grown since, the reply is for an earlier length or claim. */
  readonly resets: number;
}

/** Resolves when the replies that have arrived by now have been read. A long turn of the event loop leaves them in the socket. */
function arrivedReplies(clock: Clock): Promise<void> {
  const turn = (): Promise<void> => new Promise((resolve) => nextTurn(clock, resolve));
  // Wait for two turns, because the first may end before the event loop has looked at the sockets again.
  return turn().then(turn);
}
