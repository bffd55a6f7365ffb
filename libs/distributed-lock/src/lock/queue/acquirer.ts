import type { Clock } from '../../time/clock.js';
import { covers } from '../../port/claim.js';
import { LockShutdownError } from '../../port/lock.errors.js';
import { maxOf } from '../../collections/extremes.js';
import { depthOf, findHold, holdsOfFlow } from '../context/async-context.js';
import { Deadlocks, heldInAnotherWay, mayShare, notReentrant } from '../context/deadlock-detection.js';
import { HeldLock } from '../context/held-lock.js';
import type { Hold } from '../context/hold.js';
import { inBackground } from '../../async-context/in-background.js';
import type { LockRuntime } from '../runtime/lock-runtime.js';
import type { LockRequest } from '../request/lock-request.js';
import { LocalQueue } from './local-queue.js';
import { LocalQueues } from './local-queues.js';

/** Acquires one or several keys for a caller of one service: from the holds of its async flow, or through the local queues. */
export class Acquirer {
  private readonly queues = new LocalQueues();
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
    for (const queue of this.queues.all()) queue.close(shutdownError(queue.key));
  }

  /** @param before holds that the same call has acquired so far */
  acquire(request: LockRequest, before: readonly Hold[] = NO_HOLDS): Promise<HeldLock> {
    const { key, claim } = request;
    const own = holdsOfFlow(this.scope);
    const hold = findHold(this.scope, key, own);
    if (hold && !mayShare(hold, request)) return Promise.reject(notReentrant(hold, request));
    if (hold && covers(hold.claim, claim)) {
      return Promise.resolve(new HeldLock([hold.share(request)], depthOf(hold)));
    }
    if (hold) return Promise.reject(heldInAnotherWay(hold, claim));
    const refusal = this.refusalOf(request, own);
    if (refusal) return Promise.reject(refusal.error as Error);
    // A caller that asks once does not wait, so it cannot close a cycle of waits.
    const mayCloseCycle = request.waitMs > 0 && before.length + own.length > 0;
    if (!mayCloseCycle) return this.join(request, own);
    // Under a lock that is not shared with nested calls, the async context does not say who waits for whom.
    const surelyOwn = own.filter((held) => mayShare(held, request));
    return this.deadlocks.watch(request, [...before, ...surelyOwn], () => this.join(request, own));
  }

  /** Looks for the queue after the event, because a listener may release, abort or close. */
  private join(request: LockRequest, own: readonly Hold[]): Promise<HeldLock> {
    const { emit, hears, nextCall } = this.open();
    const { key } = request;
    const call = nextCall();
    if (hears('asked')) emit({ type: 'asked', call, key });
    const refusal = this.refusalOf(request, own);
    if (!refusal) return this.queueOf(request).join(request, call, own);
    emit({ type: 'abandoned', call, key, waitedMs: 0, error: refusal.error });
    return Promise.reject(refusal.error as Error);
  }

  /**
   * Acquires the keys one by one. All share one deadline.
   *
   * @param keys in the order of the lock's `keys`
   * @param requests for these keys, sorted by key, so that no two callers wait for each other
   */
  async acquireSeveral(keys: readonly string[], requests: Requests): Promise<HeldLock> {
    const startedAt = this.clock.now();
    this.refuseNotReentrant(requests);
    const holds = await this.acquireInOrder(requests, startedAt);
    const byKey = new Map(holds.map((hold) => [hold.key, hold]));
    return new HeldLock(
      keys.map((key) => byKey.get(key) as Hold),
      maxOf(holds.map(depthOf)),
    );
  }

  /** @throws LockDeadlockError before the call waits for any of its keys, if its flow holds one that it may not share */
  private refuseNotReentrant(requests: Requests): void {
    for (const request of requests) {
      const hold = findHold(this.scope, request.key);
      if (hold && !mayShare(hold, request)) throw notReentrant(hold, request);
    }
  }

  private async acquireInOrder(requests: Requests, startedAt: number): Promise<readonly Hold[]> {
    const [{ waitMs }] = requests;
    const measureWait = () => Math.ceil(Math.max(0, waitMs - (this.clock.now() - startedAt)));
    const isOutOfReach = (request: LockRequest): number =>
      Number(this.queues.get(request)?.isOutOfReach ?? false);
    const held: Hold[] = [];
    // A caller that does not wait first asks for a key that this process holds: the refusal costs no request.
    const order = waitMs > 0 ? requests : requests.toSorted((a, b) => isOutOfReach(b) - isOutOfReach(a));
    try {
      for (const request of order) {
        const lock = await this.acquire({ ...request, waitMs: measureWait() }, held);
        held.push(lock.holds[0] as Hold);
        await throwIfLost(held);
      }
      return held;
    } catch (error) {
      for (const hold of held.reverse()) inBackground(hold.giveBack());
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

  private queueOf(request: LockRequest): LocalQueue {
    let queue = this.queues.get(request);
    if (!queue) {
      // The queue may live much longer than this call.
      const sample = request.signal ? { ...request, signal: undefined } : request;
      queue = new LocalQueue(this.open(), sample, () => this.queues.delete(sample));
      this.queues.set(sample, queue);
    }
    return queue;
  }
}

const NO_HOLDS: readonly Hold[] = [];

type Requests = readonly [LockRequest, ...LockRequest[]];

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
