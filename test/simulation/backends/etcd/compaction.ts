import type { Keyspace } from './keyspace.js';

/**
 * Deletes the history of the keys now and then, as `--auto-compaction-retention` makes etcd do. It compacts when the next request
 * arrives, because nobody can see a difference before that.
 */
export class Compaction {
  /** A watch may begin at this revision, but not before it. */
  revision = 0;
  private nextAt: number;

  /** @param everyMs 0: never */
  constructor(
    private readonly clock: () => number,
    private readonly keyspace: Keyspace,
    private readonly everyMs: number,
  ) {
    this.nextAt = clock() + everyMs;
  }

  /** Called before each request. */
  compactIfDue(): void {
    const now = this.clock();
    if (this.everyMs === 0 || now < this.nextAt) return;
    this.nextAt = now + this.everyMs;
    this.revision = this.keyspace.revision;
  }

  /** The keys were restored from a snapshot, which knows nothing of later compactions. */
  restore(): void {
    this.revision = Math.min(this.revision, this.keyspace.revision);
  }
}
