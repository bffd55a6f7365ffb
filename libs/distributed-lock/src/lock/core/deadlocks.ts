import type { Claim } from '../../port/lock-store.js';
import { LockDeadlockError } from '../../port/lock.errors.js';
import { CallSite } from '../request/call-site.js';
import { claimText, type LockRequest } from '../request/lock-request.js';
import type { Hold } from './hold.js';

/**
 * Refuses a wait that would close a cycle: async flows of this process that hold keys and wait for each other's keys.
 *
 * A cycle across processes is not found. There `waitMs` ends the wait.
 */
export class DeadlockDetection {
  /** By key, the blocked flows that hold it. */
  private readonly blocked = new Map<string, Set<Blocked>>();

  /**
   * Runs `wait` and meanwhile remembers that a flow with `holds` is blocked on `request`.
   *
   * @throws LockDeadlockError with the path of keys, before `wait` is called, if the wait would close a cycle
   */
  async watch<T>(request: LockRequest, holds: readonly Hold[], wait: () => Promise<T>): Promise<T> {
    const live = holds.filter((hold) => hold.isLive());
    if (live.length === 0) return wait();
    const path = this.pathToOneOf(live, request);
    if (path) throw deadlockError(path);
    const blocked = { request, holds: live };
    this.enter(blocked);
    try {
      return await wait();
    } finally {
      this.leave(blocked);
    }
  }

  /**
   * Finds out whether waiting for `wanted` would close a cycle: goes from each key to the flows that hold it, and to the keys for which
   * these wait. Breadth first and in a loop, because a chain of some ten thousand flows would overflow the stack of a recursion.
   *
   * @returns the path of keys from `wanted` to one of `mine`, each held by a flow that waits for the next; `undefined` if there is no cycle
   */
  private pathToOneOf(mine: readonly Hold[], wanted: LockRequest): readonly string[] | undefined {
    /** Maps each flow found so far to the flow that waits for it. The loop adds flows while it iterates, and visits these, too. */
    const found = new Map<Blocked, Blocked | undefined>([[{ request: wanted, holds: [] }, undefined]]);
    for (const flow of found.keys()) {
      for (const next of this.blocked.get(flow.request.key) ?? []) {
        if (found.has(next) || !next.holds.some((hold) => isInTheWay(hold, flow.request))) continue;
        found.set(next, flow);
        if (!mine.some((hold) => isInTheWay(hold, next.request))) continue;
        const keys: string[] = [];
        for (let at: Blocked | undefined = next; at; at = found.get(at)) keys.push(at.request.key);
        return keys.toReversed();
      }
    }
    return undefined;
  }

  private enter(blocked: Blocked): void {
    for (const { key } of blocked.holds)
      this.blocked.set(key, (this.blocked.get(key) ?? new Set()).add(blocked));
  }

  private leave(blocked: Blocked): void {
    for (const { key } of blocked.holds) {
      const others = this.blocked.get(key);
      others?.delete(blocked);
      if (others?.size === 0) this.blocked.delete(key);
    }
  }
}

/** A flow that holds keys and waits for another one. */
interface Blocked {
  readonly request: LockRequest;
  readonly holds: readonly Hold[];
}

/** The last sentence of a `LockDeadlockError`: a cause other than a deadlock. */
const OR_A_QUEUE =
  'If the call that holds it did not make this one, a shared queue or pool has started this one in its async context: wrap the task, as in queue.add(AsyncResource.bind(task)).';

export function notReentrantError(hold: Hold, { key, site, terms }: LockRequest): LockDeadlockError {
  const [inner, outer] = [CallSite.callText(site), CallSite.callText(hold.site)];
  const since = Math.round(hold.owner.now - hold.acquiredAt);
  const who = terms.reentrant ? `the call that holds it has` : `this call has`;
  const message = `"${key}" was not acquired by ${inner}: its async context holds the key since ${since} ms, by ${outer}, and ${who} reentrant: false. If that call made this one, take the key only there. ${OR_A_QUEUE}`;
  return new LockDeadlockError(message, key, [key]);
}

export function heldInAnotherWayError({ key, claim }: Hold, wanted: Claim): LockDeadlockError {
  const advice =
    wanted.kind === 'permits' || claim.kind === 'permits'
      ? 'Use another key for it.'
      : 'Ask for exclusive first; lock.downgrade() lets readers in.';
  const message = `"${key}" is held by this flow as ${claimText(claim)}: asking for ${claimText(wanted)} would wait for itself. ${advice} ${OR_A_QUEUE}`;
  return new LockDeadlockError(message, key, [key]);
}

/**
 * Whether this hold keeps the request waiting. Shared claims do not wait for each other. A claim of permits may be served by any of
 * several holders, so no single hold is in its way.
 */
function isInTheWay(hold: Hold, { key, terms }: LockRequest): boolean {
  const { claim } = terms;
  if (hold.key !== key || claim.kind === 'permits' || !hold.isLive()) return false;
  return hold.claim.kind !== 'shared' || claim.kind !== 'shared';
}

function deadlockError(path: readonly string[]): LockDeadlockError {
  const [wanted = '', next = '', ...rest] = path;
  const waits = [`its holder waits for "${next}"`, ...rest.map((key) => `whose holder waits for "${key}"`)];
  const message = `Acquiring "${wanted}" would wait for itself: ${waits.join(', ')}, which this flow holds. Take the keys in one call, or in the same order everywhere. ${OR_A_QUEUE}`;
  return new LockDeadlockError(message, wanted, [...path]);
}
