import type { Clock } from '../../time/clock.js';
import { covers } from '../../port/claim.js';
import { LockShutdownError } from '../../port/lock.errors.js';
import { maxOf } from '../../collections/extremes.js';
import { RebuiltMap } from '../../collections/rebuilt-map.js';
import { depthOf, findHold, holdsOfFlow } from './async-context.js';
import { Deadlocks, heldInAnotherWayError, mayShare, notReentrantError } from './deadlock-detection.js';
import { HeldLock } from './held-lock.js';
import type { Hold } from './hold.js';
import type { LockRuntime } from './lock-runtime.js';
import { kindName, type LockRequest } from '../request/lock-request.js';
import { LocalQueue } from './local-queue.js';

/** Acquires one or several keys for a caller of one service: from the holds of its async flow, or through the local queues. */
export class Acquirer {
  /**
   * By key: the queues of calls without a mode, under the watchdog, neither fair nor a takeover. Nearly all calls are, so they
   * need no name.
   */
  private readonly common = new RebuiltMap<string, LocalQueue>();
  private readonly others = new RebuiltMap<string | LockRequest, LocalQueue>();
  private readonly deadlocks = new Deadlocks();
  private isClosed = false;

  constructor(
    private readonly scope: symbol,
    private readonly clock: Clock,
    private readonly open: () => LockRuntime,
  ) {}

  /** Refuses new calls from now on, except those of a flow that holds a lock: its work may end. */
  close(): void {
    this.isClosed = true;
  }

  /** Rejects the callers that wait, except those of a flow that holds a lock. */
  dismissIdle(): void {
    for (const queue of this.allQueues()) queue.close(shutdownError(queue.key));
  }

  /** @param before holds that the same call has acquired so far */
  acquire(request: LockRequest, before: readonly Hold[] = NO_HOLDS): Promise<HeldLock> {
    const { key, terms } = request;
    const own = holdsOfFlow(this.scope);
    const hold = findHold(this.scope, key, own);
    if (hold) return this.share(hold, request);
    const refusal = this.refusalOf(request, own);
    if (refusal) return Promise.reject(refusal.error as Error);
    // A caller that asks once does not wait, so it cannot close a cycle of waits.
    const mayCloseCycle = terms.waitMs > 0 && before.length + own.length > 0;
    if (!mayCloseCycle) return this.join(request, own);
    // Under a lock that is not shared with nested calls, the async context does not say who waits for whom.
    const surelyOwn = own.filter((held) => mayShare(held, terms));
    return this.deadlocks.watch(request, [...before, ...surelyOwn], () => this.join(request, own));
  }

  /** A nested call gets a share of the hold that its flow has, or is refused: it would wait for its own flow. */
  private share(hold: Hold, request: LockRequest): Promise<HeldLock> {
    const { claim } = request.terms;
    if (!mayShare(hold, request.terms)) return Promise.reject(notReentrantError(hold, request));
    if (!covers(hold.claim, claim)) return Promise.reject(heldInAnotherWayError(hold, claim));
    return Promise.resolve(new HeldLock([hold.share(request)], depthOf(hold)));
  }

  /** Looks for the queue after the event, because a listener may release, abort or close. */
  private join(request: LockRequest, own: readonly Hold[]): Promise<HeldLock> {
    const { emit, hears, events } = this.open();
    const { key } = request;
    const call = events.nextCall();
    if (hears('asked')) emit({ type: 'asked', call, key });
    const refusal = this.refusalOf(request, own);
    if (!refusal) return this.queueOf(request).join(call, request, own);
    emit({ type: 'abandoned', call, key, waitedMs: 0, error: refusal.error });
    return Promise.reject(refusal.error as Error);
  }

  /**
   * Acquires the keys one after the other. All share one deadline.
   *
   * @param keys in the order of the lock's `keys`
   * @param requests for these keys, sorted by key, so that no two callers wait for each other
   */
  async acquireSeveral(keys: readonly string[], requests: readonly LockRequest[]): Promise<HeldLock> {
    this.refuseNotReentrant(requests);
    const holds = await this.acquireInOrder(requests);
    const byKey = new Map(holds.map((hold) => [hold.key, hold]));
    return new HeldLock(
      keys.map((key) => byKey.get(key) as Hold),
      maxOf(holds.map(depthOf)),
    );
  }

  /** @throws LockDeadlockError before the call waits for any of its keys, if its flow holds one that it may not share */
  private refuseNotReentrant(requests: readonly LockRequest[]): void {
    for (const request of requests) {
      const hold = findHold(this.scope, request.key);
      if (hold && !mayShare(hold, request.terms)) throw notReentrantError(hold, request);
    }
  }

  private async acquireInOrder(requests: readonly LockRequest[]): Promise<readonly Hold[]> {
    const startedAt = this.clock.now();
    const held: Hold[] = [];
    const isHeldHere = ({ key }: LockRequest): number => Number(this.common.get(key)?.isOutOfReach ?? false);
    const mayWait = requests.some(({ terms }) => terms.waitMs > 0);
    // A caller that does not wait first asks for a key that its process holds, because that refusal costs no request.
    const order = mayWait ? requests : requests.toSorted((a, b) => isHeldHere(b) - isHeldHere(a));
    try {
      for (const request of order) {
        const { terms } = request;
        const waitMs = Math.ceil(Math.max(0, terms.waitMs - (this.clock.now() - startedAt)));
        const lock = await this.acquire({ ...request, terms: { ...terms, waitMs } }, held);
        held.push(lock.holds[0] as Hold);
        await throwIfLost(held);
      }
      return held;
    } catch (error) {
      for (const hold of held.reverse()) hold.giveBack();
      throw error;
    }
  }

  /** Why a call cannot go on: the service closes, or the caller has aborted its signal. */
  private refusalOf(
    { key, signal }: LockRequest,
    own: readonly Hold[],
  ): { readonly error: unknown } | undefined {
    if (this.isRefused(own)) return { error: shutdownError(key) };
    return signal?.aborted ? { error: signal.reason } : undefined;
  }

  private isRefused(holdsOfFlow: readonly Hold[]): boolean {
    return this.isClosed && !holdsOfFlow.some((hold) => hold.isLive());
  }

  /** Callers with the same claim and the same lease of the same key share a queue, unless they are fair or take the lock over. */
  private queueOf(request: LockRequest): LocalQueue {
    const { key, terms } = request;
    const isShared = !terms.fair && terms.graceMs === undefined;
    if (isShared && terms.watched && terms.claim.kind === 'lock') {
      return this.openQueue(this.common, key, request);
    }
    return this.openQueue(this.others, isShared ? kindName(key, terms) : request, request);
  }

  private allQueues(): readonly LocalQueue[] {
    return [...this.common.values(), ...this.others.values()];
  }

  private openQueue<Name>(
    queues: RebuiltMap<Name, LocalQueue>,
    name: Name,
    request: LockRequest,
  ): LocalQueue {
    let queue = queues.get(name);
    if (!queue) {
      queue = new LocalQueue(this.open(), request, () => queues.delete(name));
      queues.set(name, queue);
    }
    return queue;
  }
}

const NO_HOLDS: readonly Hold[] = [];

/**
 * A lease may have expired while its caller waited for the next key, also one whose last renewal has not been answered yet.
 *
 * @throws LockLostError if one of the holds was lost
 */
async function throwIfLost(holds: readonly Hold[]): Promise<void> {
  for (const hold of holds) if (hold.isInDoubt()) await hold.owner.whenSure();
  const loss = holds.map((hold) => hold.noticeLoss()).find(Boolean);
  if (loss) throw loss;
}

function shutdownError(key: string): LockShutdownError {
  return new LockShutdownError(`"${key}" was not acquired: the application is closing.`, key);
}
