import type { Clock } from '../../common/clock.js';
import { maxOf, RebuiltMap } from '../../common/collections.js';
import { unlessAborted } from '../../common/listeners.js';
import { covers } from '../../port/lock-store.js';
import { LockShutdownError } from '../../port/lock.errors.js';
import { kindName, type LockRequest, type Terms } from '../request/lock-request.js';
import { currentFlow, findHold, holdsOfFlow } from './async-context.js';
import { DeadlockDetection, heldInAnotherWayError, notReentrantError } from './deadlocks.js';
import { HeldLock } from './held-lock.js';
import type { Hold } from './hold.js';
import { LocalQueue } from './local-queue.js';
import type { LockRuntime } from './lock-runtime.js';

/**
 * Acquires one or several keys for a call of one service. If the async flow of the call holds a key already, the call shares that hold.
 * Otherwise it joins the local queue of the key.
 */
export class Acquirer {
  /** The local queues for the most common calls, by key: those without a mode, renewed by the watchdog, neither fair nor a takeover. */
  private readonly common = new RebuiltMap<string, LocalQueue>();
  /** All other local queues, by key and terms (`kindName`), or by its request for a call that does not share its queue. */
  private readonly others = new RebuiltMap<string | LockRequest, LocalQueue>();
  private readonly deadlocks = new DeadlockDetection();
  private isClosed = false;

  constructor(
    private readonly scope: symbol,
    private readonly clock: Clock,
    private readonly open: () => LockRuntime,
  ) {}

  /** Refuses new calls from now on, except those of a flow that holds a lock, because the work under that lock may need them to end. */
  close(): void {
    this.isClosed = true;
  }

  /** Rejects the callers that wait, except those of a flow that holds a lock. */
  rejectWaitersWithoutLock(): void {
    for (const queue of this.allQueues()) queue.close(shutdownError(queue.key));
  }

  /** @param before holds that the same call has acquired so far, if it asks for several keys */
  acquire(request: LockRequest, before: readonly Hold[] = NO_HOLDS): Promise<HeldLock> {
    const { key, terms } = request;
    const own = holdsOfFlow(this.scope);
    const hold = findHold(this.scope, key, own);
    if (hold) return this.share(hold, request);
    const refusal = this.refusalOf(request, own);
    if (refusal) return Promise.reject(refusal.error as Error);
    // A call with `waitMs: 0` does not wait, so it cannot close a cycle of waits.
    const mayCloseCycle = terms.waitMs > 0 && before.length + own.length > 0;
    if (!mayCloseCycle) return this.join(request, own);
    // Deadlock detection must not count a hold with `reentrant: false` as one of this call. That option is for processes in which a
    // shared queue or pool runs one caller's task in the async context of another, so the hold may be somebody else's.
    const surelyOwn = own.filter((held) => mayShare(held, terms));
    return this.deadlocks.watch(request, [...before, ...surelyOwn], () => this.join(request, own));
  }

  /** Goes on with a detached lock. The call never shares a hold of its flow, and never waits for a holder. */
  attach(request: LockRequest): Promise<HeldLock> {
    const own = holdsOfFlow(this.scope);
    const refusal = this.refusalOf(request, own);
    return refusal ? Promise.reject(refusal.error as Error) : this.join(request, own);
  }

  /** Gives a nested call a share of the hold that its flow has. Rejects the call if it may not share: it would wait for its own flow. */
  private share(hold: Hold, request: LockRequest): Promise<HeldLock> {
    const { claim } = request.terms;
    if (!mayShare(hold, request.terms)) return Promise.reject(notReentrantError(hold, request));
    if (!covers(hold.claim, claim)) return Promise.reject(heldInAnotherWayError(hold, claim));
    return Promise.resolve(new HeldLock([hold.share(request)], depthOf(hold)));
  }

  /**
   * Emits `asked` and then joins the local queue. A listener of that event may release, abort or close, so only then does this check the
   * reasons to refuse, and look up the queue.
   */
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
   * Acquires the keys one after the other, all within one `waitMs`, and sorted by key, so that no two callers wait for each other. If one
   * of them fails, those acquired so far are given back.
   *
   * @param requests one for each key, in the order of the lock's `keys`
   * @throws LockDeadlockError if the flow of the call holds one of the keys and may not share it
   */
  async acquireSeveral(requests: readonly LockRequest[]): Promise<HeldLock> {
    const [first, ...others] = requests;
    if (first && others.length === 0) return this.acquire(first);
    // Check all keys before the call waits for any of them.
    for (const request of requests) {
      const hold = findHold(this.scope, request.key);
      if (hold && !mayShare(hold, request.terms)) throw notReentrantError(hold, request);
    }
    const holds = await this.acquireInOrder(requests.toSorted((a, b) => (a.key < b.key ? -1 : 1)));
    const byKey = new Map(holds.map((hold) => [hold.key, hold]));
    return new HeldLock(
      requests.map(({ key }) => byKey.get(key) as Hold),
      maxOf(holds.map(depthOf)),
    );
  }

  private async acquireInOrder(requests: readonly LockRequest[]): Promise<readonly Hold[]> {
    const startedAt = this.clock.now();
    const held: Hold[] = [];
    const isHeldHere = ({ key }: LockRequest): number =>
      Number(this.common.get(key)?.canRefuseLocally ?? false);
    const mayWait = requests.some(({ terms }) => terms.waitMs > 0);
    // A call that does not wait begins with the keys that this process holds, because a local queue can refuse them without a request to
    // the store.
    const order = mayWait ? requests : requests.toSorted((a, b) => isHeldHere(b) - isHeldHere(a));
    try {
      for (const request of order) {
        const { terms } = request;
        const waitMs = Math.ceil(Math.max(0, terms.waitMs - (this.clock.now() - startedAt)));
        const lock = await this.acquire({ ...request, terms: { ...terms, waitMs } }, held);
        held.push(lock.holds[0] as Hold);
        await throwIfLost(held, request.signal);
      }
      return held;
    } catch (error) {
      for (const hold of held.reverse()) hold.giveBack();
      throw error;
    }
  }

  /**
   * The reason why a call must be refused: the service closes, or the caller has aborted its signal. `undefined` if it may go on. The
   * reason is wrapped in an object, because the reason of an abort may be `undefined` itself.
   */
  private refusalOf(
    { key, signal }: LockRequest,
    own: readonly Hold[],
  ): { readonly error: unknown } | undefined {
    const isRefused = this.isClosed && !own.some((hold) => hold.isLive());
    if (isRefused) return { error: shutdownError(key) };
    return signal?.aborted ? { error: signal.reason } : undefined;
  }

  /**
   * Finds or creates the local queue. Calls for the same key with the same claim and lease share one; each fair call, and each call
   * that takes the lock over, has its own.
   */
  private queueOf(request: LockRequest): LocalQueue {
    const { key, terms } = request;
    const mayShareQueue = !terms.fair && terms.graceMs === undefined;
    if (mayShareQueue && terms.watched && terms.claim.kind === 'lock') {
      return this.openQueue(this.common, key, request);
    }
    return this.openQueue(this.others, mayShareQueue ? kindName(key, terms) : request, request);
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

function depthOf(hold: Hold): number {
  return currentFlow()?.depthOf(hold) ?? 0;
}

/**
 * @throws LockLostError if an earlier hold of a call for several keys was lost while the call waited for the next key
 * @throws `signal.reason` if the signal aborts before that is known
 */
async function throwIfLost(holds: readonly Hold[], signal: AbortSignal | undefined): Promise<void> {
  for (const hold of holds) {
    if (!hold.isInDoubt()) continue;
    const sure = hold.lease.whenSure();
    // The store may take long to reply. A caller that aborts leaves at once.
    await (signal ? unlessAborted(signal, sure) : sure);
  }
  const loss = holds.map((hold) => hold.noticeLoss()).find(Boolean);
  if (loss) throw loss;
}

function shutdownError(key: string): LockShutdownError {
  return new LockShutdownError(`"${key}" was not acquired: the application is closing.`, key);
}

/** Whether a nested call may share the hold. Either of the two calls may forbid that by `reentrant: false`. */
function mayShare(hold: Hold, { reentrant }: Terms): boolean {
  return reentrant && hold.isReentrant;
}
