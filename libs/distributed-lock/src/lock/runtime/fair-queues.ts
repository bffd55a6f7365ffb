import type { LockStoreError } from '../../port/lock.errors.js';

/**
 * The fair callers of one process for each kind of claim of a key, in the order of their tickets.
 *
 * Only the first of them rechecks, and shares the answer with the others. The store drops the others from its queue
 * meanwhile. They lose nothing, because each keeps its ticket, and presents it again when it becomes the first, before the
 * one ahead of it can release.
 */
export class FairQueues {
  private readonly byKind = new Map<string, FairWaiter[]>();

  sizeOf(kind: string): number {
    return this.byKind.get(kind)?.length ?? 0;
  }

  enter(kind: string, waiter: FairWaiter): readonly FairWaiter[] {
    let queue = this.byKind.get(kind);
    if (!queue) this.byKind.set(kind, (queue = []));
    queue.splice(queue.findLastIndex(({ ticket }) => ticket <= waiter.ticket) + 1, 0, waiter);
    return queue;
  }

  leave(kind: string, waiter: FairWaiter): void {
    const queue = this.byKind.get(kind) ?? [];
    const i = queue.indexOf(waiter);
    if (i < 0) return;
    queue.splice(i, 1);
    if (queue.length === 0) this.byKind.delete(kind);
    else if (i === 0) queue[0]?.onFirst();
  }
}

/** A fair caller, from its first ticket until it is granted or leaves. Implemented by `AcquireLoop`. */
export interface FairWaiter {
  readonly ticket: number;
  /** This waiter has become the first of its process. */
  onFirst(): void;
  /** The callers of this waiter, which also get the answers that the store gives to the first one. */
  readonly callers: {
    onHolder(owner: string | undefined, remainingMs: number, askedAt: number): void;
    onStoreError(error: LockStoreError): void;
  };
}
