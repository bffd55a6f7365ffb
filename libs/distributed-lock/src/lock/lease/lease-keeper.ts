import { arrivedReplies } from '../../time/turns.js';
import { isExclusive, SHARED, type Claim } from '../../port/claim.js';
import { inBackground, type NeverRejects } from '../../async-context/in-background.js';
import type { Chance } from '../../time/chance.js';
import type { Clock, ClockReading } from '../../time/clock.js';
import type { LockEvent } from '../events/lock.events.js';
import { LockConfigurationError, LockStoreError, type LockLostError } from '../../port/lock.errors.js';
import type { LockRequest } from '../request/lock-request.js';
import { Lease, type AskedRenewal } from './lease.js';
import type { Grant, Renewal, RenewalReply } from '../../port/lock-store.js';
import { leaseMargin, leaseValidity } from '../../port/lease-validity.js';
import { Renewable, type StartedRenewal, type Watchdog } from './watchdog.js';

/** During local hand-offs a process renews at least this often, because the reply says whether the key is contended. */
export const LONGEST_BLIND_MS = 1000;
/** A fixed lease is checked this often, because no watchdog notices that the machine was suspended. */
const WAKE_CHECK_MS = 1000;
const UNSURE =
  'its machine was suspended, or its clock was set, and the store has not said since that it is still held';
const UNANSWERED = 'the store has not answered its last renewal yet';

/** Keeps the lease of one grant: renews or confirms it, acts on each reply, and notices its end. */
export class LeaseKeeper extends Renewable {
  readonly lease: Lease;
  /** The claim of the request, until `downgrade()`. */
  claim: Claim;
  private hasSteppedDown = false;
  /** The end of a fixed lease as its first caller was promised it. Only `extend` moves it. */
  private fixedUntil = Infinity;
  private cancelExpiry: (() => void) | undefined;
  private cancelRepeat: (() => void) | undefined;
  private isStopped = false;

  constructor(
    private readonly owner: LeaseOwner,
    grant: Grant,
    now: number,
    private readonly request: LockRequest,
    private readonly runtime: LeaseRuntime,
    askedLead: number,
  ) {
    super();
    const { clock, chance } = runtime;
    this.lease = new Lease(grant, now, request.leaseMs, clock, chance, askedLead);
    this.claim = request.claim;
  }

  /** A caller is admitted. */
  start(): void {
    if (this.request.watched) return this.runtime.watchdog.watch(this);
    this.fixedUntil = leaseValidity(this.runtime.clock.now(), this.lease.leaseMs);
    this.armExpiry();
  }

  stop(): void {
    this.isStopped = true;
    this.cancelExpiry?.();
    this.cancelRepeat?.();
    this.runtime.watchdog.unwatch(this);
  }

  // --- renewal --------------------------------------------------------------------------------------------------

  isRenewalDue(): boolean {
    return this.lease.isRenewalDue();
  }

  startRenewal(change?: Pick<Renewal, 'leaseMs'>): StartedRenewal {
    const { key, id: owner } = this.owner;
    const { claim, lease } = this;
    const leaseMs = change ? change.leaseMs : this.renewedMs;
    const asked = lease.startRenewal(leaseMs);
    const renewal = { key, owner, claim, leaseMs, ...lease.grantedTokens };
    return { renewal, onReply: (reply) => this.onReply(reply, asked) };
  }

  /** A fixed lease whose caller has been admitted is renewed for the rest of its time, so that its end does not move. */
  private get renewedMs(): number {
    const { lease, fixedUntil } = this;
    if (this.request.watched || fixedUntil === Infinity) return lease.leaseMs;
    return Math.max(1, Math.ceil(fixedUntil - this.runtime.clock.now() + this.marginMs));
  }

  renewNow(): void {
    if (!this.lease.isRenewing) inBackground(this.renew() as NeverRejects<RenewalReply>);
  }

  /** Called before a local hand-off. */
  renewIfBlind(now: number): void {
    if (now - this.lease.answeredAt > LONGEST_BLIND_MS) this.renewNow();
  }

  private onReply(reply: RenewalReply, asked: AskedRenewal): void {
    this.lease.onReply();
    if (this.isStopped) return;
    if (reply.kind === 'renewed') this.onRenewed(reply, asked);
    else if (reply.kind === 'unknown') this.onUnanswered(reply.error);
    else this.owner.onLost('taken', 'the store says that it is not held by us any more');
  }

  onGrantedAgain(validUntil: number): void {
    const until = Math.min(validUntil, this.fixedUntil);
    if (this.owner.isHeld && this.lease.isConfirmed) return this.lease.onProlonged(until);
    this.lease.onGrantedAgain(until);
    this.owner.onConfirmed();
  }

  private repeatWhenDue(): void {
    this.cancelRepeat?.();
    this.cancelRepeat = this.runtime.clock.after(this.lease.renewalDueInMs, () => this.renewNow());
  }

  private async renew(change?: Pick<Renewal, 'leaseMs'>): Promise<RenewalReply> {
    const { renewal, onReply } = this.startRenewal(change);
    const replies = await this.runtime.watchdog.send([renewal]);
    const reply = replies[0] as RenewalReply;
    onReply(reply);
    return reply;
  }

  private onRenewed({ waiting, validUntil }: Renewed, asked: AskedRenewal): void {
    const { owner } = this;
    const isResumed = this.lease.suspendedBy !== undefined;
    if (isResumed) this.cancelExpiry?.();
    this.lease.onRenewed(Math.min(validUntil, this.fixedUntil), asked);
    if (isResumed) this.runtime.emit({ type: 'resumed', key: owner.key, owner: owner.id });
    owner.onWaitingCount(waiting, asked.sentAt);
    // A listener of these events may have released the lock.
    if (this.isStopped) return;
    owner.onConfirmed();
    if (!this.request.watched && !this.isStopped) this.armExpiry();
  }

  private onUnanswered(error: LockStoreError): void {
    const { lease, runtime, owner } = this;
    const { key, id } = owner;
    const validForMs = lease.measureValidity();
    const isSuspendedNow = !lease.suspendedBy;
    lease.onNoAnswer(error);
    if (isSuspendedNow) runtime.emit({ type: 'suspended', key, owner: id, validForMs, error });
    // A listener of the event may have released the lock.
    if (this.isStopped) return;
    // An initial lease may be over before the watchdog's next round, which comes up to 1 s later.
    if (!owner.isHeld || !lease.isConfirmed) this.repeatWhenDue();
    if (owner.isHeld) this.armExpiry();
    else owner.onUnanswered(error);
  }

  // --- another length or claim ------------------------------------------------------------------------------------

  async extend(ms: number): Promise<void> {
    const { key } = this.owner;
    if (this.request.watched) {
      throw new LockConfigurationError(
        `"${key}" is renewed by the watchdog: extend() is for locks with a leaseMs.`,
      );
    }
    await this.reset(ms, `extend "${key}" by ${ms} ms`);
  }

  /** Turns an exclusive claim into a shared one. The end of a fixed lease does not move. */
  async downgrade(): Promise<void> {
    const { lease, request } = this;
    if (!isExclusive(request.claim) || this.hasSteppedDown) return;
    this.claim = SHARED;
    const leaseMs = request.watched ? lease.leaseMs : Math.max(1, Math.floor(lease.measureValidity()));
    await this.reset(leaseMs, `downgrade "${this.owner.key}"`);
    this.hasSteppedDown = true;
  }

  private async reset(leaseMs: number, what: string): Promise<void> {
    const before = this.fixedUntil;
    const asked = this.request.watched ? Infinity : leaseValidity(this.runtime.clock.now(), leaseMs);
    this.fixedUntil = asked;
    this.lease.startReset(leaseMs);
    const reply = await this.renew({ leaseMs });
    if (reply.kind !== 'unknown') return;
    // Unless it was asked for another length meanwhile, it ends by the shorter of both.
    if (this.fixedUntil === asked) this.fixedUntil = Math.min(before, asked);
    const left = Math.round(this.lease.measureValidity());
    const message = `Could not ${what}: ${reply.error.message}. It is valid for another ${left} ms.`;
    throw new LockStoreError(message, this.owner.key, 'unknown', { cause: reply.error });
  }

  // --- end of the lease -------------------------------------------------------------------------------------------

  /** The timer notices an expired lease early. Each use of a hold checks the lease too. */
  private armExpiry(): void {
    const { clock } = this.runtime;
    this.cancelExpiry?.();
    const ms = Math.min(Math.ceil(this.lease.measureLeft()), clock.timeOfDay ? WAKE_CHECK_MS : Infinity);
    this.cancelExpiry = clock.after(ms, () => {
      this.noticeExpiry();
      // A timer may fire a moment before the clock reaches its time.
      if (this.owner.isHeld && !this.isStopped) this.armExpiry();
    });
  }

  /** @returns why the lease must not be believed in before `whenSure` has resolved */
  whyInDoubt(at?: ClockReading): string | undefined {
    if (!this.owner.isHeld) return undefined;
    const state = this.lease.state(at);
    if (state === 'unsure') return UNSURE;
    return state === 'expired' && this.lease.isRenewing ? UNANSWERED : undefined;
  }

  /** Resolves when it is known whether the lease is over: by the replies that have arrived, or by asking the store. */
  async whenSure(): Promise<void> {
    if (this.lease.state() !== 'unsure') return arrivedReplies(this.runtime.clock);
    await this.renew();
    if (this.owner.isHeld && this.lease.state() === 'unsure') this.owner.onLost('expired', UNSURE);
  }

  noticeExpiry(at?: ClockReading): void {
    if (!this.owner.isHeld) return;
    const state = this.lease.state(at);
    if (state === 'expired') this.owner.onLost('expired', this.expiryDetail());
    else if (state === 'unsure') this.renewNow();
  }

  /** How much longer the store keeps the lease than its holder believes in it, in ms. */
  get marginMs(): number {
    return leaseMargin(this.lease.leaseMs);
  }

  private expiryDetail(): string {
    const { leaseMs, answeredAt, suspendedBy } = this.lease;
    if (!this.request.watched)
      return `its lease of ${leaseMs} ms ran out (raise leaseMs, or leave it out, and the watchdog renews the lease)`;
    const since = Math.round(this.runtime.clock.now() - answeredAt);
    return `no renewal succeeded since ${since} ms${suspendedBy ? ` (last error: ${suspendedBy.message})` : ''}`;
  }
}

/** The owner of the lease. Implemented by `Owner`. */
interface LeaseOwner {
  readonly key: string;
  readonly id: string;
  /** A caller holds the lock: the end of the lease is a loss. */
  readonly isHeld: boolean;
  onConfirmed(): void;
  /** The store has not answered a renewal. The lease may be valid all the same. */
  onUnanswered(error: LockStoreError): void;
  onWaitingCount(waiting: number, askedAt: number): void;
  onLost(reason: LockLostError['reason'], detail: string): void;
}

/** The parts of `LockRuntime` that a lease needs. */
interface LeaseRuntime {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly watchdog: Watchdog;
  readonly emit: (event: LockEvent) => void;
}

type Renewed = Extract<RenewalReply, { kind: 'renewed' }>;
