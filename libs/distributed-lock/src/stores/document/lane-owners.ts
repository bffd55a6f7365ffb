import type { Notification } from '../../port/lock-store.js';
import { recheckAfter } from '../../port/recheck-interval.js';
import type { ServerClock } from '../common/server-clock.js';
import { leftOf, type Holder, type Waiter } from './document.js';
import type { Stepper } from './key-state.js';
import type { Interest } from './register.js';

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
  ) {}

  get isEmpty(): boolean {
    return this.owners.size === 0;
  }

  get waiting(): readonly string[] {
    return [...this.owners].filter(([, { token }]) => token === undefined).map(([owner]) => owner);
  }

  onQueued(owner: string, leaseMs: number): void {
    this.owners.set(owner, { leaseMs });
  }

  onGranted(owner: string, leaseMs: number, token: number): void {
    this.owners.set(owner, { leaseMs, token });
  }

  /** Under another token the owner holds or waits again. */
  onLost(owner: string, token: number): void {
    if (this.owners.get(owner)?.token === token) this.onGone(owner);
  }

  onGone(owner: string): void {
    this.owners.delete(owner);
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
  compare(holders: readonly Holder[], queue: readonly Waiter[], now: number): readonly Notification[] {
    const told: Notification[] = [];
    for (const [owner, { token, leaseMs }] of this.owners) {
      const holder = holders.find((each) => each.owner === owner);
      if (token === undefined) {
        if (holder && holder.nonce === this.stepper.nonce) {
          this.onGranted(owner, leaseMs, holder.token);
          told.push(this.grantTo(holder, leaseMs, queue.length));
        } else if (queue[0]?.owner === owner) {
          const kept = holders.find((each) => isKeeper(each.owner));
          if (kept) told.push({ kind: 'recheck', owner, afterMs: recheckAfter(leftOf(kept.until, now)) });
        }
      } else if (holder?.token !== token) {
        this.onGone(owner);
        told.push({ kind: 'lost', owner });
      } else if (queue.length > 0) told.push({ kind: 'contended', owner, waiting: queue.length });
    }
    return told;
  }

  private grantTo(
    { owner, token, lastToken, ...lease }: Holder,
    leaseMs: number,
    waiting: number,
  ): Notification {
    const confirmed = !lease.isUnconfirmed;
    const grantedFor = confirmed ? leaseMs : Math.min(leaseMs, this.stepper.initialLeaseMs);
    const until = lease.until as number;
    const validUntil =
      until === Infinity ? Infinity : this.serverClock.validityOf(until - grantedFor, grantedFor);
    return { kind: 'granted', owner, token, lastToken, validUntil, waiting, confirmed };
  }
}

/** See `keeperOf` in the port. */
function isKeeper(owner: string): boolean {
  return owner.includes(':-');
}
