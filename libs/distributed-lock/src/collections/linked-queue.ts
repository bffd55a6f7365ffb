/** Base class of the entries of a `LinkedQueue`. An entry is in one queue at a time. */
export class Linked {
  declare before: Linked | undefined;
  declare after: Linked | undefined;
  declare queue: object | undefined;

  constructor() {
    // No class fields: V8 defines the fields of a class with five or more subclasses slowly, one by one.
    this.before = this.after = this.queue = undefined;
  }
}

/**
 * First in, first out, with removal from the middle in constant time.
 *
 * A `Set` of objects would do the same, but hashes each entry and leaves garbage for ten thousands of entries per second
 * (`npm run bench -- --only spread`, docs/decisions/0012).
 */
export class LinkedQueue<T extends Linked> implements Iterable<T> {
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
    if (item.before) item.before.after = after;
    else this.head = after;
    if (after) after.before = item.before;
    else this.tail = item.before as T | undefined;
    item.before = item.after = item.queue = undefined;
    this.count -= 1;
    return true;
  }

  /** In order. Entries removed during iteration are not visited any more. Entries added during it are not visited. */
  *[Symbol.iterator](): Generator<T, void> {
    const items: T[] = [];
    for (let at = this.head; at; at = at.after as T | undefined) items.push(at);
    for (const item of items) if (this.has(item)) yield item;
  }
}
