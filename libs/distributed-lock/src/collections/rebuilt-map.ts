/** Rebuild after four times as many insertions as current entries. */
const TURNOVER = 4;
const MIN_TURNOVER = 256;

/**
 * A `Map` for ten thousands of insertions and deletions per second (`npm run bench -- --only spread`).
 *
 * V8 moves a `Map` that is full of deleted entries to a new table, and the old table keeps a link to the new one. An old
 * table that has reached the old generation therefore keeps all later tables alive, with their entries, until the next full
 * collection. Nothing links to a new `Map`, so this one is rebuilt from time to time.
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

  /** @returns true if it was there */
  delete(key: K): boolean {
    return this.map.delete(key);
  }

  /** In order of insertion. Entries added or removed during iteration may or may not be visited. */
  values(): IterableIterator<V> {
    return this.map.values();
  }
}
