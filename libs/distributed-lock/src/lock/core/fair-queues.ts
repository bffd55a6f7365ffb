import type { AcquireLoop } from './acquire-loop.js';

/**
 * The fair callers of one process for each kind of claim of a key, in the order of their tickets.
 *
 * Only the first of them rechecks, and shares the answer with the others. The store drops the others from its queue
 * meanwhile. They lose nothing, because each keeps its ticket, and presents it again when it becomes the first, before the
 * one ahead of it can release.
 */
export class FairQueues {
  private readonly byKind = new Map<string, AcquireLoop[]>();

  sizeOf(kind: string): number {
    return this.byKind.get(kind)?.length ?? 0;
  }

  enter(kind: string, waiter: AcquireLoop): readonly AcquireLoop[] {
    let queue = this.byKind.get(kind);
    if (!queue) this.byKind.set(kind, (queue = []));
    queue.splice(queue.findLastIndex(({ ticket }) => ticket <= waiter.ticket) + 1, 0, waiter);
    return queue;
  }

  leave(kind: string, waiter: AcquireLoop): void {
    const queue = this.byKind.get(kind) ?? [];
    const i = queue.indexOf(waiter);
    if (i < 0) return;
    queue.splice(i, 1);
    if (queue.length === 0) this.byKind.delete(kind);
    else if (i === 0) queue[0]?.onFirst();
  }
}
