import { kindName } from '../request/lock-request.js';
import type { AcquireLoop } from './acquire-loop.js';

/** The queues of this service's fair callers, by key and kind of claim. */
export class FairQueues {
  private readonly byKind = new Map<string, FairQueue>();

  /** `undefined` if nobody is in the queue. */
  get(kind: string): FairQueue | undefined {
    return this.byKind.get(kind);
  }

  /** Puts a loop that has a ticket into its queue. @returns the queue */
  enter(loop: AcquireLoop): FairQueue {
    const { key, terms } = loop.owner;
    const kind = kindName(key, terms);
    let queue = this.byKind.get(kind);
    if (!queue) this.byKind.set(kind, (queue = new FairQueue(() => this.byKind.delete(kind))));
    queue.add(loop);
    return queue;
  }
}

/**
 * The acquire loops of fair callers for one key, in the order of their tickets.
 *
 * Only the first loop rechecks, and its reply counts for the others, too. The others send nothing, so the store drops their owners from
 * its queue. These owners do not lose their turn: as soon as a loop becomes the first, it sends its ticket again, and it does so before
 * the caller ahead can release.
 */
export class FairQueue {
  private readonly loops: AcquireLoop[] = [];

  constructor(private readonly onEmpty: () => void) {}

  get size(): number {
    return this.loops.length;
  }

  add(loop: AcquireLoop): void {
    this.loops.splice(this.loops.findLastIndex(({ ticket }) => ticket <= loop.ticket) + 1, 0, loop);
  }

  leave(loop: AcquireLoop): void {
    const index = this.loops.indexOf(loop);
    this.loops.splice(index, 1);
    if (this.loops.length === 0) this.onEmpty();
    else if (index === 0) this.loops[0]?.onFirst();
  }

  isFirst(loop: AcquireLoop): boolean {
    return this.loops[0] === loop;
  }

  /** How many loops are ahead of this one. */
  ahead(loop: AcquireLoop): number {
    return this.loops.indexOf(loop);
  }

  /** The loops for which the reply to this one counts, this one included. */
  sharers(loop: AcquireLoop): readonly AcquireLoop[] {
    return this.isFirst(loop) ? this.loops : [loop];
  }
}
