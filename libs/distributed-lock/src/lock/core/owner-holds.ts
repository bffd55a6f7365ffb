import type { ClockReading } from '../../common/clock.js';
import { maxOf, SmallSet } from '../../common/collections.js';
import { LockLostError } from '../../port/lock.errors.js';
import { CallSite } from '../request/call-site.js';
import { Hold } from './hold.js';
import type { Lease } from './lease.js';
import type { LockRuntime } from './lock-runtime.js';
import type { Owner } from './owner.js';
import type { Call } from './wait-deadlines.js';

/** The holds of the callers that an owner has admitted, in the order in which it admitted them. */
export class OwnerHolds extends SmallSet<Hold> {
  /**
   * Until when the key must stay taken because of ended holds with `holdAtLeastMs`: the latest end of their minimum holds. 0 if there is
   * none, and after a takeover or a forced release.
   */
  minimumUntil = 0;

  constructor(private readonly owner: Owner) {
    super();
  }

  /** Creates the hold of a caller that the owner admits, with a fencing token of its own. */
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
   * @returns whether a listener may have handled the `released` event. It may have blocked the event loop, so the caller reads the clocks
   * again
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

  /**
   * Ends all holds after a loss. All of them are marked as lost before the first listener is notified, because that listener may use or
   * release another hold.
   */
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

  /** The end of the minimum hold; `undefined` if it is over or there is none. */
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

/** While callers of this process wait for a lock of `acquire()`: after how many ms a warning names the line that acquired it. */
export const FORGOTTEN_AFTER_MS = 1000;

/**
 * Warns of each line of code whose `acquire()` keeps other callers of its process waiting for long: in development, mostly because a
 * release was forgotten. Each line is named only once, because a lock may also be held for long on purpose.
 */
export class ForgottenReleases {
  private readonly named = new Set<string>();
  private cancel: (() => void) | undefined;

  constructor(private readonly runtime: LockRuntime) {}

  /** Called when a caller waits for a lock that `acquire()` has taken. One timer serves all such locks. */
  onWaiter(): void {
    this.cancel ??= this.runtime.naming.after(FORGOTTEN_AFTER_MS, () => this.onTime());
  }

  stop(): void {
    this.cancel?.();
  }

  private onTime(): void {
    this.cancel = undefined;
    for (const { key, heldMs, site } of this.runtime.owners.heldByForgottenAcquire()) {
      const line = site.line ?? 'acquire()';
      if (this.named.has(line)) continue;
      if (heldMs < FORGOTTEN_AFTER_MS) this.onWaiter();
      else this.name(key, heldMs, line);
    }
  }

  private name(key: string, heldMs: number, line: string): void {
    this.named.add(line);
    this.runtime.events.warn(
      `Callers of this process wait for "${key}", which it has held for ${Math.round(heldMs)} ms by ${line}. Was that lock never released? Use withLock or await using. If it is held so long on purpose, ignore this: it is said once.`,
    );
  }
}

/** A hold of `acquire()` for which a caller of its process waits. */
export interface ForgottenHold {
  readonly key: string;
  readonly heldMs: number;
  readonly site: CallSite;
}
