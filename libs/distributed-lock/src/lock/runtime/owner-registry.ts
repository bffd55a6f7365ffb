import { RebuiltMap } from '../../collections/rebuilt-map.js';
import type { HoldSnapshot } from '../lock.js';
import type { LockLostError, LockShutdownError } from '../../port/lock.errors.js';
import type { Notification } from '../../port/lock-store.js';
import { timeOfDay, type Clock } from '../../time/clock.js';
import type { WaitedFor } from './forgotten-releases.js';

/**
 * The owners of one service by id, each from before its first request until it has ended.
 *
 * A notification for an owner that is not here is stale: the store repeats that owner's release until no grant of it can
 * be left.
 */
export class OwnerRegistry {
  /** How many owners there have been. */
  count = 0;
  /** Makes the reason of each `shutdownSignal`. Defined once the service has begun to close. */
  shutdownErrorOf: ((key: string) => LockShutdownError) | undefined;
  private readonly byId = new RebuiltMap<string, RegisteredOwner>();
  private onEmpty: (() => void) | undefined;

  constructor(
    private readonly clientId: string,
    private readonly clock: Clock,
    private readonly onOwner: () => void,
  ) {}

  get isEmpty(): boolean {
    return this.byId.size === 0;
  }

  /** True if one of the first `count` owners is still there. */
  hasOneOf(count: number): boolean {
    const [oldest] = this.byId.values();
    return oldest !== undefined && Number(oldest.id.slice(this.clientId.length + 1)) <= count;
  }

  get keysHeld(): readonly string[] {
    return this.holders().map(({ key }) => key);
  }

  describeHolds(): readonly HoldSnapshot[] {
    const [now, time] = [this.clock.now(), timeOfDay(this.clock)];
    return [...this.byId.values()].flatMap((owner) => owner.describeHolds(now, time));
  }

  waitedFor(): readonly WaitedFor[] {
    return [...this.byId.values()].flatMap((owner) => owner.waitedFor());
  }

  /** @returns an owner id that was never used before */
  register(owner: RegisteredOwner): string {
    const id = `${this.clientId}:${++this.count}`;
    this.byId.set(id, owner);
    this.onOwner();
    return id;
  }

  deregister({ id }: RegisteredOwner): void {
    this.byId.delete(id);
    if (this.isEmpty) this.onEmpty?.();
  }

  onNotification(notification: Notification): void {
    if (notification.owner !== undefined) this.byId.get(notification.owner)?.onNotification(notification);
    else for (const owner of this.byId.values()) owner.onNotification(notification);
  }

  beginShutdown(errorOf: (key: string) => LockShutdownError): void {
    this.shutdownErrorOf = errorOf;
    for (const owner of this.holders()) owner.tellShutdown();
  }

  loseAll(detail: string): void {
    for (const owner of this.holders()) owner.onLost('shutdown', detail);
  }

  whenEmpty(): Promise<void> {
    if (this.isEmpty) return Promise.resolve();
    return new Promise((resolve) => (this.onEmpty = resolve));
  }

  private holders(): RegisteredOwner[] {
    return [...this.byId.values()].filter((owner) => owner.isHeld);
  }
}

/** Implemented by `Owner`. */
interface RegisteredOwner {
  readonly id: string;
  readonly key: string;
  readonly isHeld: boolean;
  onNotification(notification: Notification): void;
  onLost(reason: LockLostError['reason'], detail: string): void;
  tellShutdown(): void;
  waitedFor(): readonly WaitedFor[];
  describeHolds(now: number, timeOfDay: number): readonly HoldSnapshot[];
}
