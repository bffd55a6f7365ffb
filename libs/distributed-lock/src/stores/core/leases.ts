import type { Grant, Notification } from '../../port/lock-store.js';
import type { Clock } from '../../time/clock.js';
import type { ServerClock } from '../common/server-clock.js';
import type { Holder, TimedReading } from './document.js';

/**
 * Who ends the leases and tickets of this client's owners when their time is over: the back end does (`ServerSideExpiry`), or
 * the client must (`SessionLeases` in stores/session). `ServerSideExpiry` keeps no account of owners: `start`, `end` and `extend`
 * do nothing there.
 */
export interface Leases {
  /** True if a renewal writes the new end of the lease; false if it only reads that its owner holds, as no end is written. */
  readonly areRenewalsWritten: boolean;
  start(key: string, owner: string, ms: number): void;
  end(owner: string): void;
  /** A request that prolongs the lease is about to be sent, so that it must not end meanwhile. */
  extend(owner: string, ms: number): void;
  /** A waiting owner of this client was granted the lock. @returns until when the owner may believe in the grant */
  onGranted(holder: Holder, told: { key: string; leaseMs: number; timed: TimedReading }): number;
  /** The owner was granted the lock, or its renewal was answered. */
  onHeld(lease: LeaseStart): void;
  /** The newest document of the key names these holders. */
  onHolders(key: string, holders: readonly Holder[]): void;
  /** @returns whether documents name owners of this client that must stay there until their time is over */
  close(): Promise<boolean>;
}

/** A lease that begins, or begins again, maybe with another length. */
export interface LeaseStart extends Pick<Grant, 'token' | 'lastToken'> {
  readonly key: string;
  readonly owner: string;
  readonly leaseMs: number;
  readonly sentAt: number;
}

/** The things that a client does for its leases. Implemented by `DocumentStore`. */
export interface LeaseClient {
  readonly clientId: string;
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly watchdogTimeoutMs: number;
  holds(key: string, owner: string, token: number): boolean;
  /** Releases the owner in its document, if `isOver` still says so then, and calls `onEnded`. */
  end(key: string, owner: string, isOver: () => boolean, onEnded: () => void): void;
  notify(notification: Notification): void;
}

/** The server ends each lease by its own clock, and nothing is to be done. */
export class ServerSideExpiry implements Leases {
  readonly areRenewalsWritten = true;

  /** @param initialLeaseMs the length of the lease of a grant that its owner has not confirmed yet */
  constructor(
    private readonly serverClock: ServerClock,
    private readonly initialLeaseMs: number,
  ) {}

  onGranted({ until, isUnconfirmed }: Holder, { leaseMs }: { readonly leaseMs: number }): number {
    if (until === Infinity) return Infinity;
    const grantedFor = isUnconfirmed ? Math.min(leaseMs, this.initialLeaseMs) : leaseMs;
    return this.serverClock.validityOf((until as number) - grantedFor, grantedFor);
  }

  start(): void {}

  end(): void {}

  extend(): void {}

  onHeld(): void {}

  onHolders(): void {}

  async close(): Promise<boolean> {
    return false;
  }
}
