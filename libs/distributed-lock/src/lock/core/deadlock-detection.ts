import { claimText, type Claim } from '../../port/claim.js';
import { callText, type Hold } from './hold.js';
import { LockDeadlockError } from '../../port/lock.errors.js';
import type { LockRequest, Terms } from '../request/lock-request.js';

/**
 * Refuses a wait that would close a cycle: async flows of this process that hold keys and wait for each other's keys.
 *
 * A cycle across processes is not found. There `waitMs` ends the wait.
 */
export class Deadlocks {
  /** The flows that hold a key while they wait for another one, by the key that they hold. */
  private readonly blocked = new Map<string, Set<Blocked>>();

  /** Runs the wait of a flow that has `holds`. @throws LockDeadlockError, before it waits, with the path of keys */
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
   * Breadth first, in a loop: a chain of some ten thousand flows would overflow the stack of a recursion.
   *
   * @returns the shortest path of keys from `wanted` to one of `mine`, each held by a flow that waits for the next
   */
  private pathToOneOf(mine: readonly Hold[], wanted: LockRequest): readonly string[] | undefined {
    const seen = new Set<Blocked>();
    const waits: Wait[] = [{ request: wanted, before: undefined }];
    // The loop visits what it adds to the list, too.
    for (const wait of waits) {
      for (const blocked of this.blocked.get(wait.request.key) ?? []) {
        if (seen.has(blocked) || !blocked.holds.some((hold) => isInTheWay(hold, wait.request))) continue;
        seen.add(blocked);
        const next: Wait = { request: blocked.request, before: wait };
        if (mine.some((hold) => isInTheWay(hold, next.request))) return keysUpTo(next);
        waits.push(next);
      }
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

interface Blocked {
  readonly request: LockRequest;
  readonly holds: readonly Hold[];
}

interface Wait {
  readonly request: LockRequest;
  /** Its holder makes `request`. */
  readonly before: Wait | undefined;
}

function keysUpTo(last: Wait): readonly string[] {
  const keys: string[] = [];
  for (let wait: Wait | undefined = last; wait; wait = wait.before) keys.push(wait.request.key);
  return keys.toReversed();
}

/** What else may be the reason: the async context of a call is not that of the call which holds the key. */
const OR_A_QUEUE =
  'If the call that holds it did not make this one, a shared queue or pool has started this one in its async context: wrap the task, as in queue.add(AsyncResource.bind(task)).';

/** Whether a nested call may share the lock. Either of the two calls may refuse that by `reentrant: false`. */
export function mayShare(hold: Hold, { reentrant }: Terms): boolean {
  return reentrant && hold.isReentrant;
}

/** The error of a nested call for a key that its flow holds, when one of the two calls shares its lock with no other. */
export function notReentrantError(hold: Hold, { key, site, terms }: LockRequest): LockDeadlockError {
  const [inner, outer] = [callText(site), callText(hold.site)];
  const since = Math.round(hold.owner.now - hold.acquiredAt);
  const who = terms.reentrant ? `the call that holds it has` : `this call has`;
  const message = `"${key}" was not acquired by ${inner}: its async context holds the key since ${since} ms, by ${outer}, and ${who} reentrant: false. If that call made this one, take the key only there. ${OR_A_QUEUE}`;
  return new LockDeadlockError(message, key, [key]);
}

/** The error of a nested call that asks for more than its flow holds. The call would wait for its own flow to release. */
export function heldInAnotherWayError({ key, claim }: Hold, wanted: Claim): LockDeadlockError {
  const advice =
    wanted.kind === 'permits' || claim.kind === 'permits'
      ? 'Use another key for it.'
      : 'Ask for exclusive first; lock.downgrade() lets readers in.';
  const message = `"${key}" is held by this flow as ${claimText(claim)}: asking for ${claimText(wanted)} would wait for itself. ${advice} ${OR_A_QUEUE}`;
  return new LockDeadlockError(message, key, [key]);
}

/** Shared claims do not wait for each other. A claim of permits may be served by any of several holders. */
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
