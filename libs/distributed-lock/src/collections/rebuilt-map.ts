/** So many times as many as it has may come before it starts anew. */
const TURNOVER = 4;
const LEAST_TURNOVER = 256;

/**
 * A `Map` for what comes and goes, by the ten thousand in a second.
 *
 * When a `Map` of V8 is full of what was deleted it moves to a new table, and the old one keeps a link to that. Once an old
 * table has survived two collections it therefore keeps alive all that follow it, with what was in them, until the next
 * full collection, and such garbage is copied again and again. Nothing links to a `Map` that is made anew, so this one is,
 * once in a while.
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
    if (this.added > LEAST_TURNOVER && this.added > TURNOVER * this.map.size) {
      this.map = new Map(this.map);
      this.added = 0;
    }
    this.map.set(key, value);
  }

  /** @returns whether it was there */
  delete(key: K): boolean {
    return this.map.delete(key);
  }

  /** In the order of their coming. What comes while it is gone through may be missing; what goes, may still be met. */
  values(): IterableIterator<V> {
    return this.map.values();
  }
}
