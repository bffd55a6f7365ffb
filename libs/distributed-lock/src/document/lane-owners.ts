import { type AcquireRequest, isPlaceholder, type Notification } from '../port/lock-store.js';
import { recheckAfter, SILENT_WAITER_MS } from '../port/timing.js';
import { type Holder, isOver, remainingOf, type StoredWaiter, type TimedReading } from './document.js';
import type { LaneContext } from './lane.js';
import type { PollPriority } from './timed-register.js';

/** The owners of this client that hold one key or wait for it, as far as the client knows. */
export class LaneOwners {
  private readonly owners = new Map<string, OwnerOnLane>();

  constructor(
    private readonly key: string,
    private readonly context: Pick<LaneContext, 'client' | 'serverClock' | 'leases'>,
  ) {}

  get isEmpty(): boolean {
    return this.owners.size === 0;
  }

  get waiting(): readonly string[] {
    return [...this.owners].filter(([, { token }]) => token === undefined).map(([owner]) => owner);
  }

  get hasHolder(): boolean {
    return this.waiting.length < this.owners.size;
  }

  holds(owner: string, token: number): boolean {
    return this.owners.get(owner)?.token === token;
  }

  /** Called when the owner's note was stored. If a message with its grant arrived earlier, the owner stays a holder. */
  onNoteStored({ owner, leaseMs }: AcquireRequest): void {
    if (!this.owners.has(owner)) this.onQueued(owner, leaseMs);
  }

  onQueued(owner: string, leaseMs: number): void {
    this.owners.set(owner, { leaseMs });
    this.context.leases?.start(this.key, owner, SILENT_WAITER_MS);
  }

  onGranted(owner: string, leaseMs: number, token: number): void {
    this.owners.set(owner, { leaseMs, token });
    this.context.leases?.start(this.key, owner, leaseMs);
  }

  onRenewed(owner: string, leaseMs: number): void {
    if (this.owners.has(owner)) this.context.leases?.start(this.key, owner, leaseMs);
  }

  /** Forgets the owner that held under `token`, unless it holds under a newer token or waits again. */
  onLost(owner: string, token: number): void {
    if (this.owners.get(owner)?.token === token) this.onGone(owner);
  }

  onGone(owner: string): void {
    this.owners.delete(owner);
    this.context.leases?.end(owner);
  }

  /** Returns a `lost` notification for each holder. Owners that wait stay recorded here, and must join the queue again. */
  onSessionEnd(): readonly Notification[] {
    const holding = [...this.owners].filter(([, { token }]) => token !== undefined);
    return holding.map(([owner]) => {
      this.onGone(owner);
      return { kind: 'lost', owner };
    });
  }

  /** How urgently this client needs changes of the document, from the place of its owners in the queue. */
  pollPriorityIn(queue: readonly StoredWaiter[]): PollPriority | undefined {
    if (this.isEmpty) return undefined;
    if (this.hasHolder) return 'held';
    const { waiting } = this;
    const first = queue.findIndex(({ owner }) => waiting.includes(owner));
    return first < 0 ? queue.length : first;
  }

  /**
   * Finds in a newer document what other clients did to the owners of this client, and records it.
   *
   * Ignores two kinds of grants. One without this client's nonce may be forged. One that has expired may come from an earlier session
   * of this client, and another owner may hold the lock by now.
   *
   * @returns the notifications for the core
   */
  compare(timed: TimedReading, queue: readonly StoredWaiter[], now: () => number): readonly Notification[] {
    const { holders } = timed.reading.document;
    const notifications: Notification[] = [];
    for (const [owner, { token, leaseMs }] of this.owners) {
      const holder = holders.find((each) => each.owner === owner);
      if (token === undefined) {
        if (holder && holder.nonce === this.context.client.nonce && !isOver(holder.until, now())) {
          this.onGranted(owner, leaseMs, holder.token);
          notifications.push(grantTo(holder, this.validityOf(holder, leaseMs, timed), queue.length));
        } else if (queue[0]?.owner === owner) {
          // No client writes anything when a minimum hold ends, so tell our first waiter to recheck at that moment.
          const placeholder = holders.find((each) => isPlaceholder(each.owner));
          if (placeholder)
            notifications.push({
              kind: 'recheck',
              owner,
              afterMs: recheckAfter(remainingOf(placeholder, now())),
            });
        }
      } else if (holder?.token !== token) {
        this.onGone(owner);
        notifications.push({ kind: 'lost', owner });
      } else {
        if (holder.takeover) notifications.push({ kind: 'takeover', owner, ...holder.takeover });
        if (queue.length > 0) notifications.push({ kind: 'contended', owner, waiting: queue.length });
      }
    }
    return notifications;
  }

  /** Until when, by our clock, an owner may rely on a grant that another client wrote. */
  private validityOf(holder: Holder, leaseMs: number, timed: TimedReading): number {
    const { leases, serverClock, client } = this.context;
    if (leases) return leases.onGranted(holder, { key: this.key, leaseMs, timed });
    if (holder.until === Infinity) return Infinity;
    const grantedFor = holder.isUnconfirmed ? Math.min(leaseMs, client.initialLeaseMs) : leaseMs;
    return serverClock.validityOf((holder.until as number) - grantedFor, grantedFor);
  }
}

interface OwnerOnLane {
  readonly leaseMs: number;
  /** The fencing token of the owner's grant; `undefined` while the owner waits. */
  readonly token?: number;
}

function grantTo(holder: Holder, validUntil: number, waiting: number): Notification {
  const { owner, token, lastToken } = holder;
  return { kind: 'granted', owner, token, lastToken, validUntil, waiting, confirmed: !holder.isUnconfirmed };
}
