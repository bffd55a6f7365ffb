import { Hold, type ReleaseOutcome } from './hold.js';
import type { LocalLine } from './local-line.js';
import type { LockCore } from './lock-core.js';
import { LockConfigurationError, LockLostError, LockStoreError } from './lock.errors.js';
import type { LockRequest } from './lock-request.js';
import { leaseMargin } from './validity.js';
import type { AcquireReply, End, EndReply, Grant, Push, Renewal, RenewalReply } from './lock-store.js';

/** A look presents the place for this long at most; stores drop whoever has not looked for three looks. */
const LONGEST_WAIT_PER_ASK_MS = 60_000;
/** Tokens reserved for local hand-offs. More would let tokens run ahead of the store's clock (docs/decisions/0004). */
const BLOCK = 1000;
/** How long a process may go on passing the lock to its own callers while others wait. */
const SLICE_MS = 4;
const RETRY_MS = { least: 50, spread: 50 };
const RENEWAL_RETRY_MS = { least: 100, spread: 200 };
/** While it passes the lock on locally, a process asks at least this often whether others wait. */
const LONGEST_BLIND_MS = 1000;

/**
 * waiting:    asks, or stands in the store's line.
 * confirming: granted, but nobody is let in before the store has confirmed it.
 * held:       a caller is inside.
 * ended:      given up, for good; an owner id never comes back.
 */
type State = 'waiting' | 'confirming' | 'held' | 'ended';

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
  private hold: Hold | undefined;

  private askInFlight = false;
  private lookWanted = false;
  private place = 0;
  /** An attempt got no answer: it may yet be executed. */
  private unsure = false;
  private cancelLook: (() => void) | undefined;

  private grant: Grant | undefined;
  private nextToken = 0;
  private validUntil = -Infinity;
  private confirmed = false;
  /** Others wait: no local hand-off from then on. */
  private sliceUntil: number | undefined;

  private leaseMs: number;
  private renewalInFlight = false;
  private renewedAt = 0;
  private renewAt = 0;
  private renewalError: Error | undefined;
  private cancelExpiry: (() => void) | undefined;

  constructor(
    private readonly line: LocalLine,
    private readonly request: LockRequest,
    private readonly core: LockCore,
  ) {
    this.key = request.key;
    this.leaseMs = request.leaseMs;
    this.owner = core.tenures.enter(this);
  }

  get isHeld(): boolean {
    return this.state === 'held';
  }

  get validForMs(): number {
    return Math.max(0, this.validUntil - this.core.clock.now());
  }

  // --- asking ---------------------------------------------------------------------------------------------------

  /** Asks the store, or looks again with the same owner and place. One command in flight at a time. */
  ask(): void {
    if (this.state !== 'waiting') return;
    if (this.askInFlight) {
      this.lookWanted = true;
      return;
    }
    this.cancelLook?.();
    this.askInFlight = true;
    const { key, owner, leaseMs, place } = this;
    const waitMs = this.line.longestWaitMs(LONGEST_WAIT_PER_ASK_MS);
    this.core.store.acquire({ key, owner, leaseMs, waitMs, place, tokens: this.tokensWanted() }).then(
      (reply) => this.afterAsk(() => this.onReply(reply)),
      (error: unknown) => this.afterAsk(() => this.onAskFailed(error)),
    );
  }

  private afterAsk(step: () => void): void {
    this.askInFlight = false;
    const again = this.lookWanted;
    this.lookWanted = false;
    step();
    if (again) this.ask();
  }

  private tokensWanted(): number {
    return this.request.watched && !this.request.fair && this.line.size > 1 ? BLOCK : 1;
  }

  private onReply(reply: AcquireReply): void {
    if (reply.kind === 'granted') return this.onGrant(reply);
    // A push may have overtaken this reply: then it is old news.
    if (this.state !== 'waiting') return;
    this.line.onHolder(reply.holder, reply.remainingMs);
    this.line.dismissImpatient();
    if (reply.kind === 'queued') this.place = reply.place;
    if (this.line.size === 0) return this.leave();
    if (reply.kind === 'queued') this.lookAfter(reply.lookAfterMs);
    else this.ask();
  }

  private onAskFailed(error: unknown): void {
    if (this.state !== 'waiting') return;
    const failure = this.asStoreError(error);
    if (failure.reason === 'unknown') this.unsure = true;
    this.line.onStoreError(failure);
    if (failure.reason === 'refused') this.line.dismissAll(failure);
    else this.line.dismissImpatient(failure);
    if (this.line.size > 0) this.lookAfter(between(RETRY_MS));
    else this.leave();
  }

  private asStoreError(error: unknown): LockStoreError {
    if (error instanceof LockStoreError) return error;
    return new LockStoreError(`The store failed: ${String(error)}`, this.key, 'refused', { cause: error });
  }

  private lookAfter(ms: number): void {
    this.cancelLook?.();
    this.cancelLook = this.core.clock.after(ms, () => this.ask());
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
        if (this.state !== 'waiting') return undefined;
        return push.afterMs > 0 ? this.lookAfter(push.afterMs) : this.ask();
    }
  }

  private onGrant(grant: Grant): void {
    // The end of this owner is under way and is repeated until no grant of it can be left.
    if (this.state === 'ended') return;
    if (this.state !== 'waiting') return this.onGrantAgain(grant);
    this.cancelLook?.();
    this.grant = grant;
    this.nextToken = grant.token;
    this.extendValidity(grant.validUntil);
    this.onWaiting(grant.waiting);
    this.confirmed = grant.confirmed;
    if (grant.confirmed) return this.serve();
    this.renewNow();
    if (this.validForMs > 0) this.serve();
    else this.state = 'confirming';
  }

  /** The same grant, told twice, is good news; another one means that the first was lost in between. */
  private onGrantAgain(grant: Grant): void {
    if (grant.token !== this.grant?.token) return this.lose('taken', 'it was lost and granted anew');
    this.extendValidity(grant.validUntil);
    if (grant.confirmed) this.onConfirmed();
  }

  private onConfirmed(): void {
    this.confirmed = true;
    if (this.state === 'confirming') this.serve();
  }

  /** Lets the next caller in; without one the lock goes back. */
  private serve(): void {
    const waiter = this.line.shift();
    if (!waiter) return void this.end();
    const { core, key, owner } = this;
    const now = core.clock.now();
    const by = this.nextToken === this.grant?.token ? 'store' : 'local';
    const fencingToken = this.nextToken++;
    this.state = 'held';
    this.hold = new Hold(core.scope, this, fencingToken, now);
    if (this.request.watched) core.watchdog.watch(this);
    else this.armExpiry();
    core.emit({ type: 'acquired', key, owner, fencingToken, waitedMs: now - waiter.askedAt, by });
    waiter.outcome.resolve(this.hold);
  }

  // --- released -------------------------------------------------------------------------------------------------

  /** The caller inside is done: the next one of this process, or the next process. */
  passOn(hold: Hold): Promise<ReleaseOutcome> {
    const { core, key, owner } = this;
    const now = core.clock.now();
    const { fencingToken } = hold;
    core.emit({ type: 'released', key, owner, fencingToken, heldMs: now - hold.acquiredAt });
    this.hold = undefined;
    if (!this.mayHandOff(now)) return this.end().then(asReleaseOutcome, () => 'unknown');
    if (this.confirmed) {
      if (now - this.renewedAt > LONGEST_BLIND_MS) this.renewNow();
      this.serve();
    } else this.state = 'confirming';
    return Promise.resolve('released');
  }

  /** Never at the edge of a lease, never with a token that was not reserved, never past the slice. */
  private mayHandOff(now: number): boolean {
    if (this.line.size === 0 || !this.request.watched || this.request.fair) return false;
    if (this.nextToken > (this.grant?.lastToken ?? 0) || this.renewalError) return false;
    if (this.sliceUntil !== undefined && now >= this.sliceUntil) return false;
    return !this.confirmed || this.validUntil - now >= this.leaseMs / 2;
  }

  private onWaiting(others: number): void {
    if (others === 0) this.sliceUntil = undefined;
    else this.sliceUntil ??= this.core.clock.now() + SLICE_MS;
  }

  onNobodyWaits(): void {
    if (this.state === 'waiting' || this.state === 'confirming') void this.end();
  }

  private end(delayMs = 0): Promise<EndReply> {
    const { key, owner, leaseMs, core } = this;
    this.stop();
    const end = { key, owner, leaseMs, ...this.used() };
    const ended = delayMs > 0 ? this.later(delayMs, () => core.store.end(end)) : core.store.end(end);
    this.core.tenures.leave(this, ended);
    this.line.onTenureEnded();
    return ended;
  }

  private async later<T>(ms: number, step: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => this.core.clock.after(ms, resolve));
    return step();
  }

  /** Tokens that were reserved and not used; an end is built once, so a repetition says the same. */
  private used(): Pick<End, 'used'> {
    const last = this.nextToken - 1;
    if (!this.grant || last < this.grant.token || last >= this.grant.lastToken) return {};
    return { used: { token: last, lastToken: this.grant.lastToken } };
  }

  /** Nobody asks any more. Whoever was only ever answered "busy" has nothing to give up. */
  private leave(): void {
    if (this.unsure || this.place > 0) return void this.end();
    this.stop();
    this.core.tenures.leave(this);
    this.line.onTenureEnded();
  }

  private stop(): void {
    this.state = 'ended';
    this.cancelLook?.();
    this.cancelExpiry?.();
    this.core.watchdog.unwatch(this);
  }

  // --- renewal and loss -----------------------------------------------------------------------------------------

  renewal(): Renewal {
    this.renewalInFlight = true;
    const { key, owner, leaseMs } = this;
    const { token = 0, lastToken = 0 } = this.grant ?? {};
    return { key, owner, leaseMs, token, lastToken };
  }

  isRenewalDue(now: number): boolean {
    return !this.renewalInFlight && now >= this.renewAt;
  }

  onRenewal(reply: RenewalReply): void {
    this.renewalInFlight = false;
    if (this.state !== 'held' && this.state !== 'confirming') return;
    if (reply.kind === 'renewed') this.onRenewed(reply.validUntil, reply.waiting);
    else if (reply.kind === 'unknown') this.onRenewalUnknown(reply.error);
    else if (this.hold || this.nextToken > (this.grant?.token ?? 0)) {
      this.lose('taken', 'the store says that it is not held by us any more');
    } else {
      // Nobody was let in under this grant: back to the line, at the old place.
      this.state = 'waiting';
      this.core.watchdog.unwatch(this);
      this.ask();
    }
  }

  private onRenewed(validUntil: number, waiting: number): void {
    const { key, owner } = this;
    this.extendValidity(validUntil);
    if (this.renewalError) {
      this.renewalError = undefined;
      this.cancelExpiry?.();
      this.core.emit({ type: 'resumed', key, owner });
    }
    this.onWaiting(waiting);
    this.onConfirmed();
    if (!this.request.watched) this.armExpiry();
  }

  private onRenewalUnknown(error: Error): void {
    const { key, owner, validForMs, core } = this;
    if (!this.renewalError) core.emit({ type: 'suspended', key, owner, validForMs, error });
    this.renewalError = error;
    this.renewAt = core.clock.now() + between(RENEWAL_RETRY_MS);
    core.watchdog.watch(this);
    this.armExpiry();
  }

  private renewNow(): void {
    if (!this.renewalInFlight) void this.core.watchdog.renew([this]);
  }

  private extendValidity(validUntil: number): void {
    const now = this.core.clock.now();
    const third = this.leaseMs / 3;
    this.validUntil = Math.max(this.validUntil, validUntil);
    this.renewedAt = now;
    // Spread, so that locks taken together are not for ever renewed together.
    this.renewAt = now + third - Math.random() * (third / 10);
  }

  /** Sets a fixed lease anew. */
  async extend(ms: number): Promise<void> {
    const { key, core } = this;
    if (this.request.watched) {
      throw new LockConfigurationError(
        `"${key}" is renewed by the watchdog: extend() is for locks with a leaseMs.`,
      );
    }
    this.leaseMs = ms;
    const [reply] = await core.store.renew([this.renewal()]);
    if (!reply) return;
    if (reply.kind === 'renewed') this.validUntil = reply.validUntil;
    this.onRenewal(reply);
    if (reply.kind === 'unknown') {
      const message = `Could not extend "${key}" by ${ms} ms: ${reply.error.message}. It is valid for another ${Math.round(this.validForMs)} ms.`;
      throw new LockStoreError(message, key, 'unknown', { cause: reply.error });
    }
  }

  /** A timer is only the fast way: whoever asks a hold computes the same. */
  private armExpiry(): void {
    this.cancelExpiry?.();
    this.cancelExpiry = this.core.clock.after(Math.ceil(this.validForMs), () => this.checkValidity());
  }

  checkValidity(): void {
    if (this.state !== 'held') return;
    if (this.validForMs > 0) return;
    this.lose('expired', this.expiryDetail());
  }

  private expiryDetail(): string {
    if (!this.request.watched) return `its lease of ${this.leaseMs} ms ran out`;
    const since = Math.round(this.core.clock.now() - this.renewedAt);
    const last = this.renewalError ? ` (last error: ${this.renewalError.message})` : '';
    return `no renewal succeeded since ${since} ms${last}`;
  }

  /** Nobody but the caller inside has anything to lose. */
  lose(reason: LockLostError['reason'], detail: string): void {
    if (this.state === 'waiting' || this.state === 'ended') return;
    const { hold, key, owner, core } = this;
    if (hold) {
      const heldMs = core.clock.now() - hold.acquiredAt;
      const error = new LockLostError(key, heldMs, reason, detail, this.renewalError && { cause: this.renewalError });
      hold.lose(error);
      core.emit({ type: 'lost', key, owner, fencingToken: hold.fencingToken, error });
    }
    // We stop believing before the store does. What the store still keeps may protect the caller's last step.
    void this.end(reason === 'expired' ? leaseMargin(this.leaseMs) : 0);
  }
}

function between({ least, spread }: { readonly least: number; readonly spread: number }): number {
  return least + Math.random() * spread;
}

function asReleaseOutcome(reply: EndReply): ReleaseOutcome {
  return reply === 'not held' ? 'lost' : reply;
}
