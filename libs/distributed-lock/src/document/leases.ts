import { type Clock, within } from '../common/clock.js';
import type { Grant, Notification } from '../port/lock-store.js';
import { leaseValidity, SILENT_WAITER_MS } from '../port/timing.js';
import { clientOf, type Holder, type TimedReading, UNCONFIRMED_MS } from './document.js';

/** How long `close` waits, in ms, for leases that run out soon, to end them in the back end. Longer ones end with the session. */
export const LAST_LEASES_MS = 1000;

/**
 * Ends the leases and tickets of this client's owners when they run out, and keeps holders from relying on a lease for longer than
 * the session certainly lasts. Only etcd and ZooKeeper need it: they keep what a client writes as long as its session lasts.
 */
export class SessionLeases {
  private readonly leases = new Map<string, Lease>();
  /** By key, the orphan (see `onHolders`) whose lease is running. */
  private readonly orphans = new Map<string, string>();
  /** How long an orphan stays, in ms. Within this time a late reply may still show that its owner does hold the lock. */
  private orphanMs = SILENT_WAITER_MS;
  private readonly bound: SessionBoundLeases;
  private readonly clock: Clock;
  private firesAt = Infinity;
  private cancel = (): void => undefined;
  private readonly ending = new Set<string>();
  private onEnded = (): void => undefined;

  /** @param sessionUntil returns until when, by our clock, the session certainly lasts */
  constructor(
    private readonly client: LeaseClient,
    sessionUntil: () => number,
  ) {
    this.clock = client.clock;
    this.bound = new SessionBoundLeases(client, sessionUntil);
  }

  start(key: string, owner: string, ms: number): void {
    const endsAt = this.clock.now() + ms;
    this.leases.set(owner, { key, endsAt });
    this.fireAt(endsAt);
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
    this.bound.end(owner);
    const lease = this.leases.get(owner);
    if (!lease) return;
    this.leases.delete(owner);
    if (this.orphans.get(lease.key) === owner) this.orphans.delete(lease.key);
    if (this.ending.delete(owner) && this.ending.size === 0) this.onEnded();
  }

  /**
   * Called when another client has granted a waiting owner of this client the lock.
   *
   * @returns until when, by our clock, the owner may believe in the grant
   */
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

  /** Called when the back end has granted the owner the lock or renewed its lease. */
  onHeld(lease: HeldLease): void {
    this.bound.start(lease);
  }

  /**
   * Called with the holders in the newest document of the key. Starts a lease for an orphan: a holder that belongs to this client,
   * but of which the client has no lease. Either the reply to its acquire was lost, or the owner was released after the document
   * was written. As long as the session lives, no other client can remove an orphan. So this client does when the lease has run
   * out, unless a reply has shown meanwhile that the owner does hold the lock.
   */
  onHolders(key: string, holders: readonly Holder[]): void {
    for (const { owner } of holders) {
      if (clientOf(owner) === this.client.clientId) this.expireOrphan(key, owner);
    }
  }

  /**
   * Ends in the back end the leases that run out within `LAST_LEASES_MS`.
   *
   * @returns whether documents still name owners of this client whose time has not run out, so that their entries must stay
   */
  async close(): Promise<boolean> {
    this.orphanMs = 0;
    for (const [key, owner] of this.orphans) this.start(key, owner, 0);
    await within(this.clock, LAST_LEASES_MS, this.whenEnded(LAST_LEASES_MS));
    this.bound.close();
    this.cancel();
    this.firesAt = -Infinity;
    return this.leases.size > 0;
  }

  /** Handles one orphan of each key at a time: most were released after this document was written, and the next one no longer names them. */
  private expireOrphan(key: string, owner: string): void {
    if (this.leases.has(owner) || this.orphans.has(key)) return;
    this.orphans.set(key, owner);
    this.start(key, owner, this.orphanMs);
  }

  private whenEnded(ms: number): Promise<void> {
    const until = this.clock.now() + ms;
    for (const [owner, { endsAt }] of this.leases) if (endsAt <= until) this.ending.add(owner);
    return this.ending.size === 0 ? Promise.resolve() : new Promise((resolve) => (this.onEnded = resolve));
  }

  private isOver(owner: string): boolean {
    const lease = this.leases.get(owner);
    return lease !== undefined && lease.endsAt <= this.clock.now();
  }

  private endInStore(key: string, owner: string): void {
    this.client.end({ key, owner, isOver: () => this.isOver(owner), onEnded: () => this.end(owner) });
  }

  private fireAt(at: number): void {
    if (at >= this.firesAt) return;
    this.cancel();
    this.firesAt = at;
    this.cancel = this.clock.after(Math.max(0, at - this.clock.now()), () => this.fire());
  }

  /** Ends the leases that have run out. Tries again after `commandTimeoutMs`, until the back end has ended them. */
  private fire(): void {
    this.firesAt = Infinity;
    const now = this.clock.now();
    let next = Infinity;
    for (const [owner, { key, endsAt }] of this.leases) {
      next = Math.min(next, endsAt > now ? endsAt : now + this.client.commandTimeoutMs);
      if (endsAt <= now) this.endInStore(key, owner);
    }
    if (next < Infinity) this.fireAt(next);
  }
}

interface Lease {
  readonly key: string;
  endsAt: number;
}

/** The start of a lease, or its restart by a renewal, which may have another length. */
interface HeldLease extends Pick<Grant, 'token' | 'lastToken'> {
  readonly key: string;
  readonly owner: string;
  readonly leaseMs: number;
  readonly sentAt: number;
}

/** The parts of a store that its leases call. */
interface LeaseClient {
  readonly clientId: string;
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly watchdogTimeoutMs: number;
  holds(key: string, owner: string, token: number): boolean;
  /** Removes an owner whose lease has run out from the document. */
  end(ending: {
    readonly key: string;
    readonly owner: string;
    /** Asked again just before the document is changed, because a renewal may have come in between. */
    readonly isOver: () => boolean;
    readonly onEnded: () => void;
  }): void;
  notify(notification: Notification): void;
}

/** How many times in the length of a session this client repeats grants to its holders. */
const NOTIFICATIONS_PER_SESSION = 12;

/**
 * Leases that end later than the session certainly lasts. A holder may rely on its lease only until then. So each time keep-alives
 * have prolonged the session, this class repeats the grant to the holder, with the same token and a later `validUntil`.
 */
class SessionBoundLeases {
  private readonly leases = new Map<string, BoundLease>();
  private cancel: (() => void) | undefined;

  /** @param sessionUntil returns until when, by our clock, the session certainly lasts */
  constructor(
    private readonly client: LeaseClient,
    private readonly sessionUntil: () => number,
  ) {}

  start({ key, owner, token, lastToken, leaseMs, sentAt }: HeldLease): void {
    this.leases.delete(owner);
    const endsAt = leaseValidity(sentAt, leaseMs);
    const notifiedUntil = Math.min(endsAt, this.sessionUntil());
    if (notifiedUntil === endsAt) return;
    this.leases.set(owner, { key, token, lastToken, endsAt, notifiedUntil });
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
      for (const [owner, lease] of this.leases) this.repeatGrant(owner, lease);
      if (this.leases.size > 0) this.schedule();
    });
  }

  private repeatGrant(owner: string, lease: BoundLease): void {
    const { key, token, lastToken, endsAt, notifiedUntil } = lease;
    if (notifiedUntil === endsAt || !this.client.holds(key, owner, token)) {
      this.leases.delete(owner);
      return;
    }
    const validUntil = Math.min(endsAt, this.sessionUntil());
    if (validUntil <= notifiedUntil) return;
    lease.notifiedUntil = validUntil;
    this.client.notify({ kind: 'granted', owner, token, lastToken, validUntil, waiting: 0, confirmed: true });
  }
}

interface BoundLease extends Pick<Grant, 'token' | 'lastToken'> {
  readonly key: string;
  /** Until when the holder may rely on the lease if the session lasts long enough. */
  readonly endsAt: number;
  notifiedUntil: number;
}
