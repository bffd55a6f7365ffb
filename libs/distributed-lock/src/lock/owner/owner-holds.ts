import { maxOf } from '../../collections/extremes.js';
import { SmallSet } from '../../collections/small-set.js';
import { LockLostError } from '../../port/lock.errors.js';
import { Hold, type HeldOwner } from '../context/hold.js';
import type { Lease } from '../lease/lease.js';
import type { HoldSnapshot } from '../lock.js';
import { CallSite } from '../request/call-site.js';
import type { LockRequest } from '../request/lock-request.js';
import type { WaitedFor } from '../runtime/forgotten-releases.js';
import type { LockRuntime } from '../runtime/lock-runtime.js';

/** The holds of the callers that an owner has admitted and that have not released yet, and the events of these callers. */
export class OwnerHolds {
  private readonly holds = new SmallSet<Hold>();
  /** The latest end of a minimum hold, of the holds that are over. A takeover and force end all minimum holds. */
  minimumUntil = 0;

  constructor(
    private readonly owner: HeldOwner,
    private readonly runtime: LockRuntime,
  ) {}

  get size(): number {
    return this.holds.size;
  }

  /** Gives a caller the lock, with a fencing token of its own. */
  admit({ call, request, waitingSince }: Caller, lease: Lease, now: number): Hold {
    const { owner, runtime } = this;
    const { key, id } = owner;
    const by = lease.hasAdmittedNobody ? 'store' : 'local';
    const fencingToken = lease.takeToken();
    const { site, reentrant } = request;
    const hold = new Hold(runtime.scope, call, owner, fencingToken, now, site, reentrant);
    hold.holdAtLeast(request.holdAtLeastMs);
    this.holds.add(hold);
    if (runtime.hears('acquired')) {
      const waitedMs = now - waitingSince;
      runtime.emit({ type: 'acquired', call, key, owner: id, fencingToken, waitedMs, by });
    }
    return hold;
  }

  /** @returns whether somebody listens to the event */
  release(hold: Hold, now: number): boolean {
    const { runtime } = this;
    // Before the event, because a listener may block the event loop and unsubscribe.
    const isHeard = runtime.hears('released');
    if (isHeard) {
      const { key, id: owner } = this.owner;
      const { call, fencingToken } = hold;
      runtime.emit({ type: 'released', call, key, owner, fencingToken, heldMs: now - hold.acquiredAt });
    }
    this.holds.delete(hold);
    this.minimumUntil = Math.max(this.minimumUntil, hold.holdUntil);
    return isHeard;
  }

  /** All holds are lost before the first listener is told, because it may use or release another hold. */
  lose(reason: LockLostError['reason'], detail: string, cause: Error | undefined): void {
    const { key, id: owner, now } = this.owner;
    const isTaken = reason === 'takeover' || reason === 'taken';
    const ends = Array.from(this.holds, ({ holdUntil }) => holdUntil);
    this.minimumUntil = isTaken ? 0 : Math.max(this.minimumUntil, maxOf(ends));
    const losses = Array.from(this.holds, (hold) => {
      const error = new LockLostError(key, now - hold.acquiredAt, reason, detail, cause && { cause });
      return { hold, error, tell: hold.lose(error) };
    });
    for (const { hold, error, tell } of losses) {
      tell();
      const { call, fencingToken } = hold;
      this.runtime.emit({ type: 'lost', call, key, owner, fencingToken, error });
    }
  }

  tellShutdown(): void {
    for (const hold of this.holds) hold.tellShutdown();
  }

  tellTakeover(): void {
    for (const hold of this.holds) hold.tellTakeover();
  }

  /** In the order in which they were admitted. */
  all(): Iterable<Hold> {
    return this.holds;
  }

  describe(now: number, timeOfDay: number): readonly HoldSnapshot[] {
    return Array.from(this.holds, (hold) => hold.describe(now, timeOfDay));
  }

  /** The holds of `acquire()` whose line of code is known, for the warning about a forgotten release. */
  waitedFor(now: number): readonly WaitedFor[] {
    const { key } = this.owner;
    return Array.from(this.holds).flatMap(({ site, acquiredAt }) =>
      site instanceof CallSite && site.isNoted ? [{ key, site, heldMs: now - acquiredAt }] : [],
    );
  }
}

/** A caller that an owner admits: a `LocalWaiter`, or one that has asked for several keys. */
export interface Caller {
  readonly call: number;
  readonly request: LockRequest;
  readonly waitingSince: number;
}
