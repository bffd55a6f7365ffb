import { RebuiltMap } from '../../common/collections.js';
import type { HoldSnapshot } from '../lock.js';
import type { LockShutdownError } from '../../port/lock.errors.js';
import type { Notification } from '../../port/lock-store.js';
import { readClocks, timeOfDay } from '../../common/clock.js';
import type { Hold } from './hold.js';
import type { LockRuntime } from './lock-runtime.js';
import type { Owner } from './owner.js';
import type { ForgottenHold } from './owner-holds.js';
import { holdsToName } from './holder-directory.js';

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

  /** Whether one of the first `count` owners has not ended yet. Owner ids are numbered, so this looks at the oldest owner only. */
  hasOneOf(count: number): boolean {
    const [oldest] = this.byId.values();
    return oldest !== undefined && Number(oldest.id.slice(this.runtime.store.clientId.length + 1)) <= count;
  }

  describeHolds(): readonly HoldSnapshot[] {
    const [now, time] = [this.runtime.clock.now(), timeOfDay(this.runtime.clock)];
    return Array.from(this.allHolds(), (hold) => hold.describe(now, time));
  }

  /** Describes the holds that the holder entry names: those that others wait for, and those that have been held longest. */
  describeHoldsToName(): readonly HoldSnapshot[] {
    const [now, time] = [this.runtime.clock.now(), timeOfDay(this.runtime.clock)];
    return holdsToName(this.allHolds()).map((hold) => hold.describe(now, time));
  }

  /** Describes the first hold of one owner, which is the one held longest. Finds the owner by its id, without a walk through all owners. */
  describeHoldOf(owner: string): HoldSnapshot | undefined {
    const [hold] = this.byId.get(owner)?.holds ?? [];
    return hold?.describe(this.runtime.clock.now(), timeOfDay(this.runtime.clock));
  }

  /**
   * For how many ms the oldest of these holds has been held: those that others wait for and whose owner is not in `named`. `undefined` if
   * there is none.
   */
  longestAwaitedBeside(named: ReadonlySet<string>): number | undefined {
    let first = Infinity;
    for (const { acquiredAt, owner } of this.allHolds())
      if (acquiredAt < first && owner.contention.isContended && !named.has(owner.id)) first = acquiredAt;
    return first === Infinity ? undefined : this.runtime.clock.now() - first;
  }

  /** The remaining validity of the lease that ends last, in ms. */
  get longestValidityMs(): number {
    const at = readClocks(this.runtime.clock);
    let longest = 0;
    for (const owner of this.byId.values()) longest = Math.max(longest, owner.measureValidity(at));
    return longest;
  }

  heldByForgottenAcquire(): readonly ForgottenHold[] {
    return [...this.byId.values()].flatMap(({ holds }) => holds.forgotten);
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
    if (notification.owner !== undefined) this.byId.get(notification.owner)?.onNotification(notification);
    else for (const owner of this.byId.values()) owner.onNotification(notification);
  }

  beginShutdown(errorOf: (key: string) => LockShutdownError): void {
    this.shutdownErrorOf = errorOf;
    for (const { holds } of this.holders()) for (const hold of holds) hold.tellShutdown();
  }

  loseAll(detail: string): void {
    for (const owner of this.holders()) owner.onLost('shutdown', detail);
  }

  whenEmpty(): Promise<void> {
    if (this.isEmpty) return Promise.resolve();
    return new Promise((resolve) => (this.onEmpty = resolve));
  }

  *allHolds(): Generator<Hold> {
    for (const owner of this.byId.values()) yield* owner.holds;
  }

  private holders(): Owner[] {
    return [...this.byId.values()].filter((owner) => owner.isHeld);
  }
}
