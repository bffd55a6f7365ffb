/** A link of a `Fifo`; a thing stands in one at a time. */
export interface Link {
  before: Link | undefined;
  after: Link | undefined;
}

/** First in, first out, with leaving from the middle in constant time. */
export class Fifo<T extends Link> {
  private head: T | undefined;
  private tail: T | undefined;
  private count = 0;

  get size(): number {
    return this.count;
  }

  push(item: T): void {
    item.before = this.tail;
    item.after = undefined;
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

  /** @param item must be in this line */
  remove(item: T): void {
    if (item.before) item.before.after = item.after;
    else this.head = item.after as T | undefined;
    if (item.after) item.after.before = item.before;
    else this.tail = item.before as T | undefined;
    item.before = item.after = undefined;
    this.count -= 1;
  }

  *[Symbol.iterator](): Generator<T> {
    for (let item = this.head; item;) {
      const { after } = item;
      yield item;
      item = after as T | undefined;
    }
  }
}
