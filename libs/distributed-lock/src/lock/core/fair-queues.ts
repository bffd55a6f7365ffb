import { kindName } from '../request/lock-request.js';
import type { AcquireLoop } from './acquire-loop.js';

/**
 * The acquire loops of this service's fair callers that have a ticket, by key and kind of claim, and in the order of their tickets.
 *
 * Only the first loop of each queue rechecks, and its reply counts for the others, too. The others send nothing, so the store drops their
 * owners from its queue. These owners do not lose their turn: as soon as a loop becomes the first, it sends its ticket again, and it does
 * so before the caller ahead can release.
 */
export class FairQueues {
  private readonly byKind = new Map<string, AcquireLoop[]>();

  /** The length of a queue; `undefined` if nobody is in it. */
  lengthOf(kind: string): number | undefined {
    return this.byKind.get(kind)?.length;
  }

  enter(loop: AcquireLoop): void {
    const kind = kindOf(loop);
    const queue = this.byKind.get(kind) ?? [];
    this.byKind.set(kind, queue);
    queue.splice(queue.findLastIndex(({ ticket }) => ticket <= loop.ticket) + 1, 0, loop);
  }

  leave(loop: AcquireLoop): void {
    const kind = kindOf(loop);
    const queue = this.byKind.get(kind) ?? [];
    const index = queue.indexOf(loop);
    queue.splice(index, 1);
    if (queue.length === 0) this.byKind.delete(kind);
    else if (index === 0) queue[0]?.onFirst();
  }

  /** How many loops are ahead of this one. */
  ahead(loop: AcquireLoop): number {
    return Math.max(0, this.byKind.get(kindOf(loop))?.indexOf(loop) ?? 0);
  }

  /** The loops for which the reply to this one counts, this one included. */
  sharers(loop: AcquireLoop): readonly AcquireLoop[] {
    const queue = this.byKind.get(kindOf(loop));
    return queue?.[0] === loop ? queue : [loop];
  }
}

function kindOf({ owner }: AcquireLoop): string {
  return kindName(owner.key, owner.terms);
}
