import { leaseValidity } from '../../port/lease-validity.js';
import { within } from '../../time/within.js';
import { clientOf, UNCONFIRMED_MS, type Holder, type TimedReading } from '../core/document.js';
import type { LeaseClient, Leases, LeaseStart } from '../core/leases.js';
import { ClientSideExpiry } from './client-side-expiry.js';
import { SessionBoundLeases } from './session-bound-leases.js';

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
