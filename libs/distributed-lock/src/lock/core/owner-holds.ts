import { maxOf } from '../../collections/extremes.js';
import { SmallSet } from '../../collections/small-set.js';
import { LockLostError } from '../../port/lock.errors.js';
import type { ClockReading } from '../../time/clock.js';
import { CallSite } from '../request/call-site.js';
import type { Call } from './call.js';
import type { ForgottenHold } from './forgotten-releases.js';
import { Hold } from './hold.js';
import type { Lease } from './lease.js';
import type { Owner } from './owner.js';

/** The holds of the callers to whom an owner has given the lock, in the order in which they were admitted. */
export class OwnerHolds extends SmallSet<Hold> {
  /** The latest end of a minimum hold, of the holds that have ended. A takeover and force end all minimum holds. */
  minimumUntil = 0;

  constructor(private readonly owner: Owner) {
    super();
  }

  /** Gives a caller the lock, with a fencing token of its own. */
  open(next: Call, lease: Lease, now: number): Hold {
    const { key, id: owner, runtime } = this.owner;
    const by = lease.hasAdmittedNobody ? 'store' : 'local';
    const fencingToken = lease.takeToken();
    const hold = new Hold(this.owner, next, fencingToken, now);
    this.add(hold);
    if (runtime.hears('acquired')) {
      const { number: call, waitingSince } = next;
      const waitedMs = now - waitingSince;
      runtime.emit({ type: 'acquired', call, key, owner, fencingToken, waitedMs, by });
    }
    return hold;
  }

  /**
   * Called when the last call that shares `hold` has released it.
   *
   * @returns whether the event was heard. A listener may block the event loop, and unsubscribe.
   */
  close(hold: Hold, at: ClockReading): boolean {
    const { key, id: owner, runtime } = this.owner;
    const isHeard = runtime.hears('released');
    if (isHeard) {
      const { call, fencingToken, acquiredAt } = hold;
      runtime.emit({ type: 'released', call, key, owner, fencingToken, heldMs: at.now - acquiredAt });
    }
    this.delete(hold);
    this.minimumUntil = Math.max(this.minimumUntil, hold.holdUntil);
    return isHeard;
  }

  /** Ends all holds. Each is lost before the first listener is told, because a listener may use or release another hold. */
  lose(reason: LockLostError['reason'], detail: string, cause: Error | undefined): void {
    const { key, id: owner, now, runtime } = this.owner;
    const isTaken = reason === 'takeover' || reason === 'taken';
    const ends = Array.from(this, ({ holdUntil }) => holdUntil);
    this.minimumUntil = isTaken ? 0 : Math.max(this.minimumUntil, maxOf(ends));
    const losses = Array.from(this, (hold) => {
      const error = new LockLostError(key, now - hold.acquiredAt, reason, detail, cause && { cause });
      return { hold, error, tell: hold.lose(error) };
    });
    for (const { hold, error, tell } of losses) {
      tell();
      const { call, fencingToken } = hold;
      runtime.emit({ type: 'lost', call, key, owner, fencingToken, error });
    }
  }

  /** The end of the minimum hold if it is still to come. */
  get holdUntil(): number | undefined {
    const { minimumUntil } = this;
    return minimumUntil > 0 && minimumUntil > this.owner.now ? minimumUntil : undefined;
  }

  /** The holds of `acquire()` whose line of code is known, while a caller of this process waits for their lock. */
  get forgotten(): readonly ForgottenHold[] {
    const { callers, key, now } = this.owner;
    if (callers.size === 0) return [];
    return Array.from(this).flatMap(({ site, acquiredAt }) =>
      site instanceof CallSite && site.isNoted ? [{ key, site, heldMs: now - acquiredAt }] : [],
    );
  }
}
