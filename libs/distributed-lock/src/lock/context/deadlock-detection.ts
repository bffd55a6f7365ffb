import { claimText, type Claim } from '../../port/claim.js';
import type { Hold } from './hold.js';
import { LockDeadlockError } from '../../port/lock.errors.js';
import type { LockRequest } from '../request/lock-request.js';

/** A flow that holds something and waits for something else. */
interface Blocked {
  readonly request: LockRequest;
  readonly holds: readonly Hold[];
}

/**
 * Finds cycles of waits inside one process before they close: flows that hold keys and wait for each other's.
 *
 * Only flows that hold something are looked at, and only while they wait. Across processes nobody sees the whole cycle:
 * there `waitMs` ends it.
 */
export class Deadlocks {
  /** Key -> the flows that hold it and wait. */
  private readonly blocked = new Map<string, Set<Blocked>>();

  /** Runs the wait of a flow that holds `holds`. @throws LockDeadlockError, at once, with the path of keys */
  async watch<T>(request: LockRequest, holds: readonly Hold[], wait: () => Promise<T>): Promise<T> {
    const live = holds.filter((hold) => hold.isLive);
    if (live.length === 0) return wait();
    const path = this.pathToOneOf(live, request, new Set());
    if (path) throw deadlock(path);
    const blocked = { request, holds: live };
    this.enter(blocked);
    try {
      return await wait();
    } finally {
      this.leave(blocked);
    }
  }

  /** From the key asked for, over those that its holders wait for, to one of `mine`; depth first. */
  private pathToOneOf(
    mine: readonly Hold[],
    wanted: LockRequest,
    seen: Set<Blocked>,
  ): readonly string[] | undefined {
    for (const blocked of this.blocked.get(wanted.key) ?? []) {
      if (seen.has(blocked) || !blocked.holds.some((hold) => isInTheWay(hold, wanted))) continue;
      seen.add(blocked);
      const { request } = blocked;
      if (mine.some((hold) => isInTheWay(hold, request))) return [wanted.key, request.key];
      const rest = this.pathToOneOf(mine, request, seen);
      if (rest) return [wanted.key, ...rest];
    }
    return undefined;
  }

  private enter(blocked: Blocked): void {
    for (const { key } of blocked.holds) {
      const others = this.blocked.get(key);
      if (others) others.add(blocked);
      else this.blocked.set(key, new Set([blocked]));
    }
  }

  private leave(blocked: Blocked): void {
    for (const { key } of blocked.holds) {
      const others = this.blocked.get(key);
      others?.delete(blocked);
      if (others?.size === 0) this.blocked.delete(key);
    }
  }
}

/** A nested call asks for more than its flow holds: it would wait for its own end. */
export function heldInAnotherWay({ key, claim }: Hold, wanted: Claim): LockDeadlockError {
  const advice =
    wanted.kind === 'permits' || claim.kind === 'permits'
      ? 'Use another key for it.'
      : 'Ask for exclusive first; lock.downgrade() lets readers in.';
  const message = `"${key}" is held by this flow as ${claimText(claim)}: asking for ${claimText(wanted)} would wait for itself. ${advice}`;
  return new LockDeadlockError(message, key, [key]);
}

/** Readers do not wait for readers; who waits for permits may be served by any of several holders. */
function isInTheWay({ key, claim, isLive }: Hold, wanted: LockRequest): boolean {
  if (!isLive || key !== wanted.key || wanted.claim.kind === 'permits') return false;
  return claim.kind !== 'shared' || wanted.claim.kind !== 'shared';
}

function deadlock(path: readonly string[]): LockDeadlockError {
  const [wanted = '', ...rest] = path;
  const waits = rest.map((key) => `waits for "${key}"`).join(', whose holder ');
  const message = `Acquiring "${wanted}" would wait for itself: its holder ${waits}, which this flow holds. Take the keys in one call, or in the same order everywhere.`;
  return new LockDeadlockError(message, wanted, [...path]);
}
