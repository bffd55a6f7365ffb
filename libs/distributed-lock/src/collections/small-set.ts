const NONE: readonly never[] = [];

/**
 * A set that mostly has one member or none, and then takes no more memory than a field (`npm run bench -- --only hold`).
 */
export class SmallSet<T extends object> implements Iterable<T> {
  private one: T | undefined;
  /** All members, once there have been two at a time. */
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

  /** @returns true if it was a member */
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
