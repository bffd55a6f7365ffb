import { HasDeadlines, type DeadlineTimer } from '../../time/deadline-timer.js';
import type { Waiter } from './waiter.js';

/** Waiters that have left stay in the heap until they are more than those that wait. */
const LEAST_REBUILD = 64;

/**
 * The deadlines of all that wait in a line.
 *
 * A binary heap by deadline: callers that wait equally long come in the order of their deadlines, and cost one comparison
 * each; those that do not cost O(log n). Who leaves is passed over when its turn comes, so that leaving costs nothing.
 */
export class WaitDeadlines extends HasDeadlines {
  private heap: Waiter[] = [];
  /** When the most patient of them would leave, those included that have left. */
  latest = -Infinity;

  constructor(
    private readonly alarm: DeadlineTimer,
    private readonly waiting: { readonly size: number; has(waiter: Waiter): boolean },
    private readonly onOver: (waiter: Waiter) => void,
  ) {
    super();
  }

  /** A caller that does not wait is answered by the store's reply, which has a deadline of its own. */
  watch(waiter: Waiter): void {
    const { deadline } = waiter;
    this.latest = Math.max(this.latest, deadline);
    if (deadline === Infinity) return;
    if (this.heap.length > LEAST_REBUILD + 2 * this.waiting.size) this.rebuild();
    this.insert(waiter);
    this.alarm.arm(this, deadline);
  }

  /** Nobody waits any more. */
  stop(): void {
    this.alarm.disarm(this);
  }

  onDeadline(now: number): number {
    for (let first = this.heap[0]; first; first = this.heap[0]) {
      if (this.waiting.has(first)) {
        if (first.deadline > now) return first.deadline;
        this.removeFirst();
        this.onOver(first);
      } else this.removeFirst();
    }
    return Infinity;
  }

  private rebuild(): void {
    const left = this.heap.filter((waiter) => this.waiting.has(waiter));
    this.heap = [];
    for (const waiter of left) this.insert(waiter);
  }

  private insert(waiter: Waiter): void {
    const { heap } = this;
    let i = heap.length;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      const above = heap[parent] as Waiter;
      if (above.deadline <= waiter.deadline) break;
      heap[i] = above;
      i = parent;
    }
    heap[i] = waiter;
  }

  private removeFirst(): void {
    const { heap } = this;
    const last = heap.pop() as Waiter;
    if (heap.length === 0) return;
    let i = 0;
    for (let child = 1; child < heap.length; child = 2 * i + 1) {
      const right = heap[child + 1];
      if (right && right.deadline < (heap[child] as Waiter).deadline) child += 1;
      const below = heap[child] as Waiter;
      if (last.deadline <= below.deadline) break;
      heap[i] = below;
      i = child;
    }
    heap[i] = last;
  }
}
