/** A `RebuiltMap` copies itself after this many times as many insertions as it has entries. */
const TURNOVER = 4;
const MIN_TURNOVER = 256;

/**
 * A `Map` for tens of thousands of insertions and deletions per second (`npm run bench -- --only spread`).
 *
 * V8 moves a `Map` that is full of deleted entries to a new table, and the old table keeps a link to the new one. If an old table has
 * reached the old generation, it keeps all later tables with their entries alive until the next full collection. Nothing links to a new
 * `Map`, so this class copies its entries to one from time to time.
 */
export class RebuiltMap<K, V> {
  private map = new Map<K, V>();
  private added = 0;

  get size(): number {
    return this.map.size;
  }

  has(key: K): boolean {
    return this.map.has(key);
  }

  get(key: K): V | undefined {
    return this.map.get(key);
  }

  set(key: K, value: V): void {
    this.added += 1;
    if (this.added > MIN_TURNOVER && this.added > TURNOVER * this.map.size) {
      this.map = new Map(this.map);
      this.added = 0;
    }
    this.map.set(key, value);
  }

  delete(key: K): boolean {
    return this.map.delete(key);
  }

  /** In order of insertion. Entries added or removed during the iteration may or may not be visited. */
  values(): IterableIterator<V> {
    return this.map.values();
  }
}

/** Does what `Math.min(...values)` does, which throws for more than about 100 000 values. */
export function minOf(values: Iterable<number>): number {
  let min = Infinity;
  for (const value of values) min = Math.min(min, value);
  return min;
}

/** Does what `Math.max(...values)` does, which throws for more than about 100 000 values. */
export function maxOf(values: Iterable<number>): number {
  let max = -Infinity;
  for (const value of values) max = Math.max(max, value);
  return max;
}

const NONE: readonly never[] = [];

/** A set that mostly has one member or none, and then takes no more memory than a field (`npm run bench -- --only hold`). */
export class SmallSet<T extends object> implements Iterable<T> {
  private one: T | undefined;
  /** Has all members as soon as there have been two. */
  private several: Set<T> | undefined;

  get size(): number {
    if (this.several) return this.several.size;
    return this.one ? 1 : 0;
  }

  add(item: T): void {
    if (this.several) this.several.add(item);
    else if (!this.one || this.one === item) this.one = item;
    else {
      this.several = new Set([this.one, item]);
      this.one = undefined;
    }
  }

  delete(item: T): boolean {
    if (this.several) return this.several.delete(item);
    if (this.one !== item) return false;
    this.one = undefined;
    return true;
  }

  has(item: T): boolean {
    return this.several ? this.several.has(item) : this.one === item;
  }

  find(isIt: (item: T) => boolean): T | undefined {
    if (this.one) return isIt(this.one) ? this.one : undefined;
    for (const item of this.several ?? NONE) if (isIt(item)) return item;
    return undefined;
  }

  [Symbol.iterator](): Iterator<T> {
    return (this.several ?? (this.one ? [this.one] : NONE))[Symbol.iterator]();
  }
}

/** Base class of the entries of a `LinkedQueue`. An entry is in at most one queue at a time. */
export class Linked {
  declare before: Linked | undefined;
  declare after: Linked | undefined;
  declare queue: object | undefined;

  constructor() {
    // Assigned here and not by class fields: V8 initializes the fields of a class with five or more subclasses slowly, one by one.
    this.before = this.after = this.queue = undefined;
  }
}

/**
 * A first-in, first-out queue that removes entries from the middle in constant time.
 *
 * A `Set` of objects could do the same, but it hashes each entry and leaves garbage behind, at tens of thousands of entries per second
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

  /** Adds an entry at the end. An entry that is already in this queue stays where it is. */
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

  /**
   * Visits the entries in order. Entries removed during the iteration are no longer visited, and entries added during it are not
   * either.
   */
  *[Symbol.iterator](): Generator<T, void> {
    const items: T[] = [];
    for (let at = this.head; at; at = at.after as T | undefined) items.push(at);
    for (const item of items) if (this.has(item)) yield item;
  }
}
