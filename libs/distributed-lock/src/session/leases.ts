import { within } from '../common/clock.js';
import type { Clock } from '../common/clock.js';
import { clientOf, type Holder, type TimedReading, UNCONFIRMED_MS } from '../document/document.js';
import type { LeaseClient, Leases, LeaseStart } from '../document/timed-register.js';
import type { Grant } from '../port/lock-store.js';
import { leaseValidity, SILENT_WAITER_MS } from '../port/timing.js';

/**
 * The leases and tickets of this client's owners, for a back end that ends none itself. It keeps them as long as the session
 * lasts, so this client must end each of them when its time is over.
 */
export class ClientSideExpiry {
  private readonly leases = new Map<string, Lease>();
  /** The owner of the adopted entry of each key. */
  private readonly adopted = new Map<string, string>();
  /** How long an adopted entry stays, in case the reply to a request of its owner is still under way. */
  private adoptedMs = SILENT_WAITER_MS;
  private firesAt = Infinity;
  private cancel = (): void => undefined;
  private readonly ending = new Set<string>();
  private onEnded = (): void => undefined;

  /** @param release ends the lease in the back end; called when the lease is over, and every `retryMs` until `end` is called */
  constructor(
    private readonly clock: Clock,
    private readonly retryMs: number,
    private readonly release: (key: string, owner: string) => void,
  ) {}

  start(key: string, owner: string, ms: number): void {
    const endsAt = this.clock.now() + ms;
    this.leases.set(owner, { key, endsAt });
    this.fireAt(endsAt);
  }

  /**
   * Starts a lease for an entry whose owner has none here. If no reply starts another one meanwhile, this client ends the entry
   * like a silent waiter. Most such entries were released meanwhile, so one for each key at a time is enough.
   */
  adopt(key: string, owner: string): void {
    if (this.leases.has(owner) || this.adopted.has(key)) return;
    this.adopted.set(key, owner);
    this.start(key, owner, this.adoptedMs);
  }

  /** This client closes, so adopted entries end at once. */
  endAdopted(): void {
    this.adoptedMs = 0;
    for (const [key, owner] of this.adopted) this.start(key, owner, 0);
  }

  /** A request that prolongs the lease is about to be sent, so that it must not end meanwhile. */
  extend(owner: string, ms: number): void {
    const lease = this.leases.get(owner);
    if (lease) lease.endsAt = Math.max(lease.endsAt, this.clock.now() + ms);
  }

  end(owner: string): void {
    const lease = this.leases.get(owner);
    if (!lease) return;
    this.leases.delete(owner);
    if (this.adopted.get(lease.key) === owner) this.adopted.delete(lease.key);
    if (this.ending.delete(owner) && this.ending.size === 0) this.onEnded();
  }

  isOver(owner: string): boolean {
    const lease = this.leases.get(owner);
    return lease !== undefined && lease.endsAt <= this.clock.now();
  }

  /** Resolves when the leases that end within `ms` have ended. */
  whenEnded(ms: number): Promise<void> {
    const until = this.clock.now() + ms;
    for (const [owner, { endsAt }] of this.leases) if (endsAt <= until) this.ending.add(owner);
    return this.ending.size === 0 ? Promise.resolve() : new Promise((resolve) => (this.onEnded = resolve));
  }

  /** @returns whether leases were left */
  stop(): boolean {
    this.cancel();
    this.firesAt = -Infinity;
    return this.leases.size > 0;
  }

  private fireAt(at: number): void {
    if (at >= this.firesAt) return;
    this.cancel();
    this.firesAt = at;
    this.cancel = this.clock.after(Math.max(0, at - this.clock.now()), () => this.fire());
  }

  private fire(): void {
    this.firesAt = Infinity;
    const now = this.clock.now();
    let next = Infinity;
    for (const [owner, { key, endsAt }] of this.leases) {
      next = Math.min(next, endsAt > now ? endsAt : now + this.retryMs);
      if (endsAt <= now) this.release(key, owner);
    }
    if (next < Infinity) this.fireAt(next);
  }
}

interface Lease {
  readonly key: string;
  endsAt: number;
}

/** `close` waits this long, in ms, for the last leases of its owners to end. The session ends the others. */
export const LAST_LEASES_MS = 1000;

/**
 * Leases where the back end ends none: it keeps what a client writes for as long as the client's session. So the client ends
 * the leases of its own owners, and its holders believe in them for no longer than in the session.
 */
export class SessionLeases extends ClientSideExpiry implements Leases {
  private readonly bound: SessionBoundLeases;

  /** @param sessionUntil until when, on our clock, the session stays for certain */
  constructor(
    private readonly client: LeaseClient,
    sessionUntil: () => number,
  ) {
    super(client.clock, client.commandTimeoutMs, (key, owner) =>
      client.end({ key, owner, isOver: () => this.isOver(owner), onEnded: () => this.end(owner) }),
    );
    this.bound = new SessionBoundLeases(client, sessionUntil);
  }

  override end(owner: string): void {
    super.end(owner);
    this.bound.end(owner);
  }

  onGranted(
    holder: Holder,
    { key, leaseMs, timed }: { key: string; leaseMs: number; timed: TimedReading },
  ): number {
    const { sentAt, reading } = timed;
    if (holder.isUnconfirmed) {
      this.start(key, holder.owner, Math.min(leaseMs, UNCONFIRMED_MS));
      return -Infinity;
    }
    this.bound.start({ ...holder, key, leaseMs, sentAt });
    return Math.min(leaseValidity(sentAt, leaseMs), reading.validUntil ?? Infinity);
  }

  onHeld(lease: LeaseStart): void {
    this.bound.start(lease);
  }

  /** While its session lives, only this client can end the leases of its owners. So it adopts those that it finds in a document. */
  onHolders(key: string, holders: readonly Holder[]): void {
    const { clientId } = this.client;
    for (const { owner } of holders) if (clientOf(owner) === clientId) this.adopt(key, owner);
  }

  async close(): Promise<boolean> {
    this.endAdopted();
    await within(this.client.clock, LAST_LEASES_MS, this.whenEnded(LAST_LEASES_MS), undefined);
    this.bound.close();
    return this.stop();
  }
}

/** How many times in the length of a session this client tells its holders until when they may believe in their leases. */
const TOLD_PER_SESSION = 12;

/**
 * The leases of this client under a session. A holder must not believe in its lease for longer than in the session. So this
 * notifies it of its grant again, under the same token, as keep-alives prolong the session.
 */
export class SessionBoundLeases {
  private readonly leases = new Map<string, BoundLease>();
  private cancel: (() => void) | undefined;

  /** @param sessionUntil until when, on our clock, the session stays for certain */
  constructor(
    private readonly client: Pick<LeaseClient, 'clock' | 'watchdogTimeoutMs' | 'holds' | 'notify'>,
    private readonly sessionUntil: () => number,
  ) {}

  start({ key, owner, token, lastToken, leaseMs, sentAt }: LeaseStart): void {
    this.leases.delete(owner);
    const endsAt = leaseValidity(sentAt, leaseMs);
    const toldUntil = Math.min(endsAt, this.sessionUntil());
    if (toldUntil === endsAt) return;
    this.leases.set(owner, { key, token, lastToken, endsAt, toldUntil });
    this.schedule();
  }

  end(owner: string): void {
    this.leases.delete(owner);
  }

  close(): void {
    this.cancel?.();
    this.leases.clear();
  }

  private schedule(): void {
    const { clock, watchdogTimeoutMs } = this.client;
    this.cancel ??= clock.after(watchdogTimeoutMs / TOLD_PER_SESSION, () => {
      this.cancel = undefined;
      for (const [owner, lease] of this.leases) this.tell(owner, lease);
      if (this.leases.size > 0) this.schedule();
    });
  }

  private tell(owner: string, lease: BoundLease): void {
    const { key, token, lastToken, endsAt, toldUntil } = lease;
    if (toldUntil === endsAt || !this.client.holds(key, owner, token)) {
      this.leases.delete(owner);
      return;
    }
    const validUntil = Math.min(endsAt, this.sessionUntil());
    if (validUntil <= toldUntil) return;
    lease.toldUntil = validUntil;
    this.client.notify({ kind: 'granted', owner, token, lastToken, validUntil, waiting: 0, confirmed: true });
  }
}

interface BoundLease extends Pick<Grant, 'token' | 'lastToken'> {
  readonly key: string;
  /** End of the validity, if the session lasts. */
  readonly endsAt: number;
  toldUntil: number;
}
