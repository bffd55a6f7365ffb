/** What may stand in a `Fifo`; in one at a time. */
export class Link {
  before: Link | undefined;
  after: Link | undefined;
  queue: object | undefined;
}

/**
 * First in, first out, with leaving from the middle in constant time.
 *
 * A `Set` of objects would do the same. This one hashes nothing and leaves nothing behind: it is made for what comes and
 * goes by the ten thousand in a second (docs/decisions/0012).
 */
export class LinkedQueue<T extends Link> implements Iterable<T> {
  /** Where those are who go through it just now; the innermost loop first. */
  cursor: Cursor<T> | undefined;
  private head: T | undefined;
  private tail: T | undefined;
  private count = 0;

  get size(): number {
    return this.count;
  }

  has(item: T): boolean {
    return item.queue === this;
  }

  /** At the end; what stands here already stays where it is. */
  push(item: T): void {
    if (item.queue === this) return;
    item.queue = this;
    item.before = this.tail;
    if (this.tail) this.tail.after = item;
    else this.head = item;
    this.tail = item;
    this.count += 1;
  }

  shift(): T | undefined {
    const { head } = this;
    if (head) this.remove(head);
    return head;
  }

  /** @returns whether it stood here */
  remove(item: T): boolean {
    if (item.queue !== this) return false;
    const after = item.after as T | undefined;
    for (let { cursor } = this; cursor; cursor = cursor.outer) if (cursor.at === item) cursor.at = after;
    if (item.before) item.before.after = after;
    else this.head = after;
    if (after) after.before = item.before;
    else this.tail = item.before as T | undefined;
    item.before = item.after = item.queue = undefined;
    this.count -= 1;
    return true;
  }

  /** In order. What leaves meanwhile is not met any more; what comes may be missed. */
  [Symbol.iterator](): Iterator<T> {
    return (this.cursor = new Cursor(this, this.head, this.cursor));
  }
}

/** One loop over a line. Loops end in the reverse order of their beginning. */
class Cursor<T extends Link> implements Iterator<T> {
  constructor(
    private readonly line: LinkedQueue<T>,
    public at: T | undefined,
    readonly outer: Cursor<T> | undefined,
  ) {}

  next(): IteratorResult<T> {
    const value = this.at;
    if (!value) return this.return();
    this.at = value.after as T | undefined;
    return { value, done: false };
  }

  return(): IteratorReturnResult<undefined> {
    this.line.cursor = this.outer;
    return { value: undefined, done: true };
  }
}
