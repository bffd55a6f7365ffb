import { randomUUID } from 'node:crypto';
import { Subject } from 'rxjs';
import { describeGiven } from '../../checks/describe-given.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import type {
  AcquireReply,
  AcquireRequest,
  ReleaseRequest,
  ReleaseReply,
  Grant,
  InTheWay,
  LockSnapshot,
  LockStore,
  LockStoreContext,
  LockStoreFactory,
  Notification,
  Renewal,
  RenewalReply,
} from '../../port/lock-store.js';
import { MemorySpace } from './memory-space.js';

/**
 * Locks in the memory of this process: the embedded default, and all that tests need.
 *
 * Excludes callers of this process only. The same recipe given to several registrations or applications is one space
 * of locks; two recipes share nothing. Same order, tokens and expiry as on Redis.
 */
export function memoryStore(): LockStoreFactory;
export function memoryStore(given?: unknown): LockStoreFactory {
  if (given !== undefined) {
    throw new LockConfigurationError(
      `memoryStore takes nothing; it was given ${describeGiven(given)}. For locks in Redis write redisStore(…).`,
    );
  }
  const space = new MemorySpace();
  return { create: (context) => new MemoryStore(space, context) };
}

class MemoryStore implements LockStore {
  readonly name = 'memory';
  readonly clientId = randomUUID();
  readonly commandTimeoutMs = 1;
  readonly notifications$ = new Subject<Notification>();

  constructor(
    private readonly space: MemorySpace,
    private readonly context: LockStoreContext,
  ) {
    // Later, as from a server: a notification must not run inside the call of another client.
    space.connect(this.clientId, (notification) =>
      queueMicrotask(() => this.notifications$.next(notification)),
    );
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    return this.space.acquire(this.prefixed(request), this.now);
  }

  async acquireAll(requests: readonly AcquireRequest[]): Promise<readonly Grant[] | InTheWay> {
    const prefixed = requests.map((request) => this.prefixed(request));
    const reply = this.space.acquireAll(prefixed, this.now);
    return typeof reply === 'number' ? { key: (requests[reply] as AcquireRequest).key } : reply;
  }

  async renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]> {
    return renewals.map((renewal) => this.space.renew(this.prefixed(renewal), this.now));
  }

  async release(request: ReleaseRequest): Promise<ReleaseReply> {
    return this.space.release(this.prefixed(request), this.now);
  }

  async inspect(key: string): Promise<LockSnapshot | null> {
    const snapshot = this.space.inspect(this.context.keyPrefix + key, this.now);
    return snapshot && { ...snapshot, key };
  }

  async forceRelease(key: string): Promise<'released' | 'not held'> {
    return this.space.forceRelease(this.context.keyPrefix + key, this.now);
  }

  async close(): Promise<void> {
    this.space.disconnect(this.clientId);
    this.notifications$.complete();
  }

  private prefixed<T extends { readonly key: string }>(command: T): T {
    return { ...command, key: this.context.keyPrefix + command.key };
  }

  private get now(): number {
    return this.context.clock.now();
  }
}
