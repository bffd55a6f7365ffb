import { RebuiltMap } from '../../common/collections.js';
import type { Notification } from '../../port/lock-store.js';
import type { LockShutdownError } from '../../port/lock.errors.js';
import type { HoldSnapshot } from '../lock.js';
import type { Hold } from './hold.js';
import type { LockRuntime } from './lock-runtime.js';
import type { Owner } from './owner.js';

/**
 * The owners of one service by id, each from before its first request until it has ended.
 *
 * A notification for an owner that is not here is stale and is ignored: the store repeats the release of an ended owner until no grant
 * of it can be left.
 */
export class OwnerRegistry {
  /** How many owners there have been since the start. The id of the next owner ends with this number plus one. */
  count = 0;
  /** Makes the error with which `shutdownSignal` aborts. `undefined` until the service begins to close. */
  shutdownErrorOf: ((key: string) => LockShutdownError) | undefined;
  private readonly byId = new RebuiltMap<string, Owner>();
  private onEmpty: (() => void) | undefined;

  constructor(private readonly runtime: LockRuntime) {}

  get isEmpty(): boolean {
    return this.byId.size === 0;
  }

  [Symbol.iterator](): IterableIterator<Owner> {
    return this.byId.values();
  }

  get(id: string): Owner | undefined {
    return this.byId.get(id);
  }

  /** Whether one of the first `count` owners has not ended yet. Owner ids are numbered, so this looks at the oldest owner only. */
  hasOneOf(count: number): boolean {
    const [oldest] = this;
    return oldest !== undefined && Number(oldest.id.slice(this.runtime.store.clientId.length + 1)) <= count;
  }

  /** Adds an owner. @returns its id, which was never used before */
  register(owner: Owner): string {
    const id = `${this.runtime.store.clientId}:${++this.count}`;
    this.byId.set(id, owner);
    this.runtime.holderDirectory.onOwner();
    return id;
  }

  deregister({ id }: Owner): void {
    this.byId.delete(id);
    if (this.isEmpty) this.onEmpty?.();
  }

  onNotification(notification: Notification): void {
    if (notification.owner !== undefined) this.get(notification.owner)?.onNotification(notification);
    else for (const owner of this) owner.onNotification(notification);
  }

  beginShutdown(errorOf: (key: string) => LockShutdownError): void {
    this.shutdownErrorOf = errorOf;
    for (const hold of this.allHolds()) hold.tellShutdown();
  }

  loseAll(detail: string): void {
    for (const owner of this) if (owner.isHeld) owner.onLost('shutdown', detail);
  }

  whenEmpty(): Promise<void> {
    if (this.isEmpty) return Promise.resolve();
    return new Promise((resolve) => (this.onEmpty = resolve));
  }

  *allHolds(): Generator<Hold> {
    for (const owner of this) yield* owner.holds;
  }

  describeHolds(): readonly HoldSnapshot[] {
    return Array.from(this.allHolds(), (hold) => hold.describe());
  }
}
