import type { Grant, Notification } from '../../port/lock-store.js';
import type { Clock } from '../../time/clock.js';
import type { Holder, TimedReading } from './document.js';

/**
 * Ends the leases and tickets of this client's owners when their time is over. Only a back end that ends none by its own clock
 * needs this: `SessionLeases` in stores/session.
 */
export interface Leases {
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
  end(ending: LeaseEnd): void;
  notify(notification: Notification): void;
}

/** Asks the client to release the owner in its document. */
interface LeaseEnd {
  readonly key: string;
  readonly owner: string;
  /** Asked again just before the document changes, because a renewal may have come first. */
  readonly isOver: () => boolean;
  readonly onEnded: () => void;
}
