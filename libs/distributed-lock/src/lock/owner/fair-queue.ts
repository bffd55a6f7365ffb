/** An owner that asks for a fair caller and has a place in the store's line. */
export interface Standing {
  readonly ticket: number;
  /** It has become the first of its process. */
  onFirst(): void;
}

/**
 * The owners of this process that stand in the store's line for fair callers of one key, in the order of their places.
 *
 * Only the first one looks. The store drops the places of the others meanwhile, which costs them nothing: each keeps the
 * number of its place, and presents it again when it becomes the first, before the one ahead of it can give up the key.
 */
export class FairQueue<T extends Standing> implements Iterable<T> {
  private readonly owners: T[] = [];

  constructor(private readonly onEmpty: () => void) {}

  get first(): T | undefined {
    return this.owners[0];
  }

  enter(owner: T): void {
    let i = this.owners.length;
    while (i > 0 && (this.owners[i - 1] as T).ticket > owner.ticket) i -= 1;
    this.owners.splice(i, 0, owner);
  }

  leave(owner: T): void {
    const i = this.owners.indexOf(owner);
    if (i < 0) return;
    this.owners.splice(i, 1);
    if (i === 0) this.first?.onFirst();
    if (this.owners.length === 0) this.onEmpty();
  }

  [Symbol.iterator](): Iterator<T> {
    return this.owners[Symbol.iterator]();
  }
}
