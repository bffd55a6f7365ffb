import { leaseValidity } from '../../port/lease-validity.js';
import { Delays } from '../../time/delays.js';
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
export class SessionLeases implements Leases {
  private readonly expiry: ClientSideExpiry;
  private readonly bound: SessionBoundLeases;
  private readonly delays: Delays;

  /** @param sessionUntil until when, on our clock, the session stays for certain */
  constructor(
    private readonly client: LeaseClient,
    sessionUntil: () => number,
  ) {
    const { clock, commandTimeoutMs, watchdogTimeoutMs } = client;
    this.delays = new Delays(clock);
    this.expiry = new ClientSideExpiry(clock, commandTimeoutMs, (key, owner) => this.release(key, owner));
    this.bound = new SessionBoundLeases({
      clock,
      sessionMs: watchdogTimeoutMs,
      sessionUntil,
      holds: (key, owner, token) => client.holds(key, owner, token),
      notify: (notification) => client.notify(notification),
    });
  }

  start(key: string, owner: string, ms: number): void {
    this.expiry.start(key, owner, ms);
  }

  end(owner: string): void {
    this.expiry.end(owner);
    this.bound.end(owner);
  }

  onGranted(
    holder: Holder,
    { key, leaseMs, timed }: { key: string; leaseMs: number; timed: TimedReading },
  ): number {
    const { sentAt, reading } = timed;
    if (holder.isUnconfirmed) {
      this.expiry.start(key, holder.owner, Math.min(leaseMs, UNCONFIRMED_MS));
      return -Infinity;
    }
    this.bound.start({ ...holder, key, leaseMs, sentAt });
    return Math.min(leaseValidity(sentAt, leaseMs), reading.validUntil ?? Infinity);
  }

  extend(owner: string, ms: number): void {
    this.expiry.extend(owner, ms);
  }

  onHeld(lease: LeaseStart): void {
    this.bound.start(lease);
  }

  /** While its session lives, only this client can end the leases of its owners. So it adopts those that it finds in a document. */
  onHolders(key: string, holders: readonly Holder[]): void {
    const { clientId } = this.client;
    for (const { owner } of holders) if (clientOf(owner) === clientId) this.expiry.adopt(key, owner);
  }

  async close(): Promise<boolean> {
    this.expiry.endAdopted();
    await Promise.race([this.expiry.whenEnded(LAST_LEASES_MS), this.delays.wait(LAST_LEASES_MS)]);
    this.delays.endAll();
    this.bound.close();
    return this.expiry.close();
  }

  /** Ends the lease in the document, unless a renewal has come first. */
  private release(key: string, owner: string): void {
    const { expiry } = this;
    this.client.end({
      key,
      owner,
      isOver: () => expiry.isOver(owner),
      onEnded: () => expiry.end(owner),
    });
  }
}
