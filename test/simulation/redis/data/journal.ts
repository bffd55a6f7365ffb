import { Keyspace, type Entry } from './keyspace.js';

/** What one command or one whole script has written. */
type Change = ReadonlyMap<string, Entry | undefined>;

/**
 * Every change of a server in order: what its disk holds up to some number, and what each of its replicas has applied up to
 * another.
 */
export class Journal {
  private readonly changes: Change[] = [];

  /** How many changes there are. */
  get length(): number {
    return this.changes.length;
  }

  add(change: Change): void {
    if (change.size > 0) this.changes.push(change);
  }

  /** The data after the first `length` changes, and later ones are gone. */
  restore(length: number, now: () => number): Keyspace {
    this.changes.length = Math.min(length, this.changes.length);
    const data = new Keyspace(now);
    for (const change of this.changes) data.apply(change);
    return data;
  }
}
