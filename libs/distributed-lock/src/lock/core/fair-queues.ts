import type { Busy, Queued } from '../../port/lock-store.js';
import type { LockError } from '../../port/lock.errors.js';
import { RECHECK_MS } from '../../port/timing.js';
import { kindName } from '../request/lock-request.js';
import { AcquireLoop, isTemporary } from './acquire-loop.js';

/** The queues of this service's fair callers, by key and kind of claim. */
export class FairQueues {
  private readonly byKind = new Map<string, FairQueue>();

  /** `undefined` if nobody is in the queue. */
  get(kind: string): FairQueue | undefined {
    return this.byKind.get(kind);
  }

  /** Puts a loop that has a ticket into its queue. @returns the queue */
  enter(loop: FairLoop): FairQueue {
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
class FairQueue {
  private readonly loops: FairLoop[] = [];

  constructor(private readonly onEmpty: () => void) {}

  get size(): number {
    return this.loops.length;
  }

  add(loop: FairLoop): void {
    this.loops.splice(this.loops.findLastIndex(({ ticket }) => ticket <= loop.ticket) + 1, 0, loop);
  }

  leave(loop: FairLoop): void {
    const index = this.loops.indexOf(loop);
    this.loops.splice(index, 1);
    if (this.loops.length === 0) this.onEmpty();
    else if (index === 0) this.loops[0]?.onFirst();
  }

  isFirst(loop: FairLoop): boolean {
    return this.loops[0] === loop;
  }

  /** How many loops are ahead of this one. */
  ahead(loop: FairLoop): number {
    return this.loops.indexOf(loop);
  }

  /** The loops for which the reply to this one counts, too. */
  followersOf(loop: FairLoop): readonly FairLoop[] {
    return this.isFirst(loop) ? this.loops.slice(1) : [];
  }
}

/** The acquire loop of a fair caller, which has an owner of its own. It stands in the `FairQueue` of its key from its ticket on. */
export class FairLoop extends AcquireLoop {
  private fairQueue: FairQueue | undefined;

  override stop(): void {
    super.stop();
    this.fairQueue?.leave(this);
    this.fairQueue = undefined;
  }

  /** Called when this loop becomes the first of its queue, and has to recheck from now on. */
  onFirst(): void {
    this.recheckAfter(Math.max(0, this.asked.now + RECHECK_MS - this.runtime.clock.now()));
  }

  protected override onRefusal(reply: Queued | Busy): void {
    if (reply.kind === 'queued') {
      this.ticket = reply.ticket;
      this.fairQueue ??= this.runtime.fairQueues.enter(this);
    }
    for (const { queue } of this.followers) queue.onHolder(reply.holder, reply.remainingMs, this.asked.now);
    super.onRefusal(reply);
  }

  protected override onError(error: LockError): void {
    if (isTemporary(error)) for (const { queue } of this.followers) queue.onStoreError(error);
    super.onError(error);
  }

  /** The store counts only those fair callers of this process that recheck. */
  protected override othersAhead({ waiting = 0 }: Queued): number {
    return Math.max(waiting, this.fairQueue?.ahead(this) ?? 0);
  }

  protected override waitFor(reply: Queued): void {
    if (this.isFirst) super.waitFor(reply);
  }

  protected override retry(): void {
    if (this.isFirst) super.retry();
  }

  private get isFirst(): boolean {
    return this.fairQueue?.isFirst(this) ?? true;
  }

  /** The other loops, if this one is the first of its queue: its reply counts for them, too. */
  private get followers(): readonly FairLoop[] {
    return this.fairQueue?.followersOf(this) ?? [];
  }
}
