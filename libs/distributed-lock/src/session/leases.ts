import { type Clock, within } from '../common/clock.js';
import { clientOf, type Holder, type TimedReading, UNCONFIRMED_MS } from '../document/document.js';
import type { LeaseClient, Leases, LeaseStart } from '../document/timed-register.js';
import type { Grant } from '../port/lock-store.js';
import { leaseValidity, SILENT_WAITER_MS } from '../port/timing.js';

/**
 * Ends the leases and tickets of this client's owners. Needed where the back end keeps them as long as the session lasts, as etcd
 * and ZooKeeper do.
 */
export class ClientSideExpiry {
  private readonly leases = new Map<string, Lease>();
  /** By key, the owner of this client that `expireOrphan` waits for. */
  private readonly orphans = new Map<string, string>();
  /** How long an orphan stays, in ms. Within this time a late reply may still show that its owner does hold the lock. */
  private orphanMs = SILENT_WAITER_MS;
  private firesAt = Infinity;
  private cancel = (): void => undefined;
  private readonly ending = new Set<string>();
  private onEnded = (): void => undefined;

  /** @param release ends the lease in the back end. Called when the lease has run out, and again every `retryMs` until `end` is called */
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
   * Starts a lease for an orphan: an entry of a document that belongs to this client, but of which the client has no lease. Either
   * the reply to its acquire was lost, or the owner was released after the document was written. When the lease has run out, this
   * client removes the entry, unless a reply has shown meanwhile that the owner does hold the lock. Waits for at most one orphan of
   * each key at a time, because most of them were released.
   */
  expireOrphan(key: string, owner: string): void {
    if (this.leases.has(owner) || this.orphans.has(key)) return;
    this.orphans.set(key, owner);
    this.start(key, owner, this.orphanMs);
  }

  /** Ends the leases of all orphans. Called when this client closes. */
  endOrphans(): void {
    this.orphanMs = 0;
    for (const [key, owner] of this.orphans) this.start(key, owner, 0);
  }

  /**
   * Prolongs the lease in this client's memory, before the request that prolongs it is sent. Otherwise this client could end the
   * lease while the request is under way.
   */
  extend(owner: string, ms: number): void {
    const lease = this.leases.get(owner);
    if (lease) lease.endsAt = Math.max(lease.endsAt, this.clock.now() + ms);
  }

  end(owner: string): void {
    const lease = this.leases.get(owner);
    if (!lease) return;
    this.leases.delete(owner);
    if (this.orphans.get(lease.key) === owner) this.orphans.delete(lease.key);
    if (this.ending.delete(owner) && this.ending.size === 0) this.onEnded();
  }

  isOver(owner: string): boolean {
    const lease = this.leases.get(owner);
    return lease !== undefined && lease.endsAt <= this.clock.now();
  }

  /** Resolves when all leases that run out within `ms` have been ended in the back end. */
  whenEnded(ms: number): Promise<void> {
    const until = this.clock.now() + ms;
    for (const [owner, { endsAt }] of this.leases) if (endsAt <= until) this.ending.add(owner);
    return this.ending.size === 0 ? Promise.resolve() : new Promise((resolve) => (this.onEnded = resolve));
  }

  /** Stops the timer. @returns whether leases are left that were not ended in the back end */
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

/** How long `close` waits, in ms, so that its owners' leases run out and are ended. Longer leases end with the session. */
export const LAST_LEASES_MS = 1000;

/**
 * The leases of this client's owners on etcd and ZooKeeper, which keep what a client writes as long as its session lasts. Ends
 * leases that have run out, and keeps holders from relying on a lease for longer than the session certainly lasts.
 */
export class SessionLeases extends ClientSideExpiry implements Leases {
  private readonly bound: SessionBoundLeases;

  /** @param sessionUntil returns until when, by our clock, the session certainly lasts */
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

  /**
   * Lets the orphans in a document expire (see `expireOrphan`). No other client can end their leases as long as the
   * session lives.
   */
  onHolders(key: string, holders: readonly Holder[]): void {
    const { clientId } = this.client;
    for (const { owner } of holders) if (clientOf(owner) === clientId) this.expireOrphan(key, owner);
  }

  async close(): Promise<boolean> {
    this.endOrphans();
    await within(this.client.clock, LAST_LEASES_MS, this.whenEnded(LAST_LEASES_MS));
    this.bound.close();
    return this.stop();
  }
}

/** How many times in the length of a session this client tells its holders the new end of their validity. */
const NOTIFICATIONS_PER_SESSION = 12;

/**
 * Leases that end later than the session certainly lasts. A holder may rely on its lease only until then. So each time keep-alives
 * have prolonged the session, this class repeats the grant to the holder, with the same token and a later `validUntil`.
 */
export class SessionBoundLeases {
  private readonly leases = new Map<string, BoundLease>();
  private cancel: (() => void) | undefined;

  /** @param sessionUntil returns until when, by our clock, the session certainly lasts */
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
    this.cancel ??= clock.after(watchdogTimeoutMs / NOTIFICATIONS_PER_SESSION, () => {
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
  /** Until when the holder may rely on the lease if the session lasts long enough. */
  readonly endsAt: number;
  toldUntil: number;
}
