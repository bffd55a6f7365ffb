import type {
  AcquireReply,
  AcquireRequest,
  AttachRequest,
  LockStoreContext,
  ReleaseReply,
  ReleaseRequest,
  Renewal,
  RenewalReply,
} from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { unknown } from './errors.js';
import { RedisLocks } from './locks.js';
import type { RedisStoreOptions, RedisTarget } from './options.js';

/** The reply to `WAIT`: how many replicas have executed all earlier writes of this connection. */
interface Count {
  readonly replicas: number;
  /** The generation of the connection on which the replicas were counted. */
  readonly generation: number;
}

/**
 * Locks on Redis whose grants count only when enough replicas have them: for `minReplicaAcks`.
 *
 * `WAIT` goes over the connection of the commands, because it counts the replicas that have the last write of its own connection.
 * If that connection was replaced, perhaps by one to another master, the new one knows nothing of the grant. Callers who come
 * together share one `WAIT`. A grant by notification counts as soon as its first renewal is on the replicas.
 */
export class ReplicatedLocks extends RedisLocks {
  private readonly atLeast: number;
  private readonly withinMs: number;
  /**
   * Owners that may hold the lock although no count has shown that enough replicas have the grant. Includes owners whose acquire got no
   * reply.
   */
  private readonly withoutReplicaCheck = new Set<string>();
  private counting: Promise<unknown> = Promise.resolve();
  private next: Promise<Count> | undefined;

  constructor(target: RedisTarget, context: LockStoreContext, options: Required<RedisStoreOptions>) {
    super(target, context, options);
    this.atLeast = options.minReplicaAcks;
    this.withinMs = options.replicaTimeoutMs;
  }

  override acquire(request: AcquireRequest): Promise<AcquireReply> {
    return this.secured(request, () => super.acquire(request));
  }

  override attach(request: AttachRequest): Promise<AcquireReply> {
    return this.secured(request, () => super.attach(request));
  }

  private async secured(request: AcquireRequest, send: () => Promise<AcquireReply>): Promise<AcquireReply> {
    // Add the owner before the reply comes, because the reply may be lost and the grant may arrive as a notification instead.
    this.withoutReplicaCheck.add(request.owner);
    const reply = await send().catch((error: unknown) => {
      const isUnknown = error instanceof LockStoreError && error.reason === 'unknown';
      if (!isUnknown) this.onNotQueued(request);
      throw error;
    });
    if (reply.kind === 'granted') await this.secure(request);
    else if (reply.kind === 'busy' && !reply.mayComeLate) this.onNotQueued(request);
    return reply;
  }

  /**
   * Forgets the owner of an acquire that failed or was refused, unless the owner is in the queue: the core does not release an owner that
   * has never been queued, so `release` would not forget it.
   */
  private onNotQueued({ owner, ticket }: AcquireRequest): void {
    if (ticket === 0) this.withoutReplicaCheck.delete(owner);
  }

  override async renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]> {
    const replies = await super.renew(renewals);
    const confirm = async (reply: RenewalReply, i: number): Promise<RenewalReply> => {
      const renewal = renewals[i] as Renewal;
      if (reply.kind !== 'renewed' || !this.withoutReplicaCheck.has(renewal.owner)) return reply;
      return this.secure(renewal).then(
        () => reply,
        (error: LockStoreError) => ({ kind: 'unknown', error }),
      );
    };
    return Promise.all(replies.map(confirm));
  }

  override async release(request: ReleaseRequest): Promise<ReleaseReply> {
    try {
      return await super.release(request);
    } finally {
      this.withoutReplicaCheck.delete(request.owner);
    }
  }

  /**
   * Counts the replicas right after the reply to the write that granted or renewed.
   *
   * @throws LockStoreError when too few replicas have the grant in time, or the count is unknown. The grant may then be lost with the
   * master, so the caller releases the lock or asks again
   */
  private async secure({ key, owner }: { readonly key: string; readonly owner: string }): Promise<void> {
    const { atLeast, withinMs } = this;
    const { generation } = this.connection;
    const count = await this.count().catch((error: Error) => {
      // `unknown` even if the count was never sent, because the grant exists and the caller must release it.
      throw unknown(`its replicas were not counted: ${error.message}`, key, error);
    });
    if (count.generation !== generation)
      throw unknown('the connection was lost before its replicas were counted', key);
    if (count.replicas < atLeast) {
      const message = `Could not acquire "${key}": ${count.replicas} of ${atLeast} replicas had it after ${withinMs} ms. Lower minReplicaAcks, or look after the replicas.`;
      throw new LockStoreError(message, key, 'unknown');
    }
    this.withoutReplicaCheck.delete(owner);
  }

  /** Counts the replicas. A `WAIT` in flight may have begun before the caller's write, so the caller gets the count of the next one. */
  private count(): Promise<Count> {
    this.next ??= this.counting.then(() => {
      this.next = undefined;
      const count = this.ask(async (client): Promise<Count> => {
        const { generation } = this.connection;
        const replicas = (await client.call('wait', [this.atLeast, this.withinMs])) as number;
        return { replicas, generation };
      });
      this.counting = count.catch(() => undefined);
      return count;
    });
    return this.next;
  }
}
