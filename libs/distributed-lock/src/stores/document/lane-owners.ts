import { leaseValidity } from '../../port/lease-validity.js';
import type { Notification } from '../../port/lock-store.js';
import { recheckAfter, SILENT_WAITER_MS } from '../../port/recheck-interval.js';
import type { ServerClock } from '../common/server-clock.js';
import { remainingOf, UNCONFIRMED_MS, type Holder, type Waiter } from './document.js';
import type { Stepper } from './key-state.js';
import type { KeyLeases } from './own-leases.js';
import type { Interest } from './register.js';
import type { Seen } from './timed-register.js';

interface OwnerOnLane {
  readonly leaseMs: number;
  /** Of its grant; `undefined` while the owner waits. */
  readonly token?: number;
}

/** The owners of one client on one key, as this client knows them. A newer document tells what others did to them. */
export class LaneOwners {
  private readonly owners = new Map<string, OwnerOnLane>();

  constructor(
    private readonly serverClock: ServerClock,
    private readonly stepper: Pick<Stepper, 'initialLeaseMs' | 'nonce'>,
    /** Absent where the back end ends leases. */
    private readonly leases?: KeyLeases,
  ) {}

  get isEmpty(): boolean {
    return this.owners.size === 0;
  }

  get waiting(): readonly string[] {
    return [...this.owners].filter(([, { token }]) => token === undefined).map(([owner]) => owner);
  }

  holds(owner: string, token: number): boolean {
    return this.owners.get(owner)?.token === token;
  }

  onQueued(owner: string, leaseMs: number, waitMs: number): void {
    this.owners.set(owner, { leaseMs });
    this.leases?.start(owner, Math.min(waitMs, SILENT_WAITER_MS));
  }

  onGranted(owner: string, leaseMs: number, token: number): void {
    this.owners.set(owner, { leaseMs, token });
    this.leases?.start(owner, leaseMs);
  }

  onRenewed(owner: string, leaseMs: number): void {
    if (this.owners.has(owner)) this.leases?.start(owner, leaseMs);
  }

  /** Under another token the owner holds or waits again. */
  onLost(owner: string, token: number): void {
    if (this.owners.get(owner)?.token === token) this.onGone(owner);
  }

  onGone(owner: string): void {
    this.owners.delete(owner);
    this.leases?.end(owner);
  }

  /** What they held is lost. Those that wait must enter the queue again. */
  onSessionEnd(): readonly Notification[] {
    const holding = [...this.owners].filter(([, { token }]) => token !== undefined);
    return holding.map(([owner]) => {
      this.onGone(owner);
      return { kind: 'lost', owner };
    });
  }

  /** A hint for registers that poll. */
  interestIn(queue: readonly Waiter[]): Interest | undefined {
    if (this.isEmpty) return undefined;
    const { waiting } = this;
    if (waiting.length < this.owners.size) return 'held';
    const first = queue.findIndex(({ owner }) => waiting.includes(owner));
    return first < 0 ? queue.length : first;
  }

  /**
   * Compares what this client knows with a newer document, and brings it up to date. A grant without the nonce of this client
   * may be forged: the next recheck asks the back end.
   *
   * @returns what the core must hear
   */
  compare(seen: Seen, queue: readonly Waiter[], now: () => number): readonly Notification[] {
    const { holders } = seen.reading.document;
    const told: Notification[] = [];
    for (const [owner, { token, leaseMs }] of this.owners) {
      const holder = holders.find((each) => each.owner === owner);
      if (token === undefined) {
        if (holder && holder.nonce === this.stepper.nonce) {
          this.onGranted(owner, leaseMs, holder.token);
          if (holder.isUnconfirmed) this.leases?.start(owner, Math.min(leaseMs, UNCONFIRMED_MS));
          else this.leases?.onGranted?.({ ...holder, leaseMs, sentAt: seen.sentAt });
          told.push(this.grantTo(holder, leaseMs, seen, queue.length));
        } else if (queue[0]?.owner === owner) {
          const kept = holders.find((each) => isKeeper(each.owner));
          if (kept) told.push({ kind: 'recheck', owner, afterMs: recheckAfter(remainingOf(kept, now())) });
        }
      } else if (holder?.token !== token) {
        this.onGone(owner);
        told.push({ kind: 'lost', owner });
      } else if (queue.length > 0) told.push({ kind: 'contended', owner, waiting: queue.length });
    }
    return told;
  }

  private grantTo(holder: Holder, leaseMs: number, seen: Seen, waiting: number): Notification {
    const { owner, token, lastToken } = holder;
    const confirmed = !holder.isUnconfirmed;
    const validUntil = this.validityOf(holder, leaseMs, seen);
    return { kind: 'granted', owner, token, lastToken, validUntil, waiting, confirmed };
  }

  private validityOf({ until, isUnconfirmed }: Holder, leaseMs: number, { sentAt, reading }: Seen): number {
    if (this.leases) {
      return isUnconfirmed
        ? -Infinity
        : Math.min(leaseValidity(sentAt, leaseMs), reading.validUntil ?? Infinity);
    }
    if (until === Infinity) return Infinity;
    const grantedFor = isUnconfirmed ? Math.min(leaseMs, this.stepper.initialLeaseMs) : leaseMs;
    return this.serverClock.validityOf((until as number) - grantedFor, grantedFor);
  }
}

/** See `keeperOf` in the port. */
function isKeeper(owner: string): boolean {
  return owner.includes(':-');
}
