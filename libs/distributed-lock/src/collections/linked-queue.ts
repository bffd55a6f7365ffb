/** Base class of the entries of a `LinkedQueue`. An entry is in one queue at a time. */
export class Link {
  before: Link | undefined;
  after: Link | undefined;
  queue: object | undefined;
}

/**
 * First in, first out, with removal from the middle in constant time.
 *
 * A `Set` of objects would do the same, but hashes each entry and leaves garbage for ten thousands of entries per second
 * (`npm run bench -- --only spread`, docs/decisions/0012).
 */
export class LinkedQueue<T extends Link> implements Iterable<T> {
  /** The loops over this queue that run now; the innermost first. */
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

  /** Adds an entry at the end. An entry that is in this queue already stays where it is. */
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

  /** @returns true if it was in this queue */
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

  /** In order. Entries removed during iteration are not visited any more. Entries added during it may or may not be visited. */
  [Symbol.iterator](): Iterator<T> {
    return (this.cursor = new Cursor(this, this.head, this.cursor));
  }
}

/** One loop over a queue. Loops end in the reverse order of their start. */
class Cursor<T extends Link> implements Iterator<T> {
  constructor(
    private readonly queue: LinkedQueue<T>,
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
    this.queue.cursor = this.outer;
    return { value: undefined, done: true };
  }
}
