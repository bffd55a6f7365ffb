import { describeGiven } from '../options/describe-given.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { FenceMemory } from './fence.js';

/**
 * Tokens seen by this process, for a service of one instance and for tests.
 *
 * Several instances must share a memory, such as `fencedRedis(client)`, because each sees only a part of the requests.
 * When it is full, it forgets the key that was raised longest ago.
 */
export class ProcessFences extends FenceMemory {
  private readonly seen = new Map<string, number>();

  /** @param most how many keys it remembers; default 100 000 */
  constructor(private readonly most = 100_000) {
    super();
    if (!Number.isInteger(most) || most < 1) {
      throw new LockConfigurationError(
        `ProcessFences takes how many keys it remembers, 1 or more; it was given ${typeof most === 'number' ? most : describeGiven(most)}.`,
      );
    }
  }

  /** Remembers `token` as `FenceMemory` does, in this process. */
  raise(key: string, token: number): number {
    const largest = Math.max(token, this.seen.get(key) ?? 0);
    // Deleted first, so that the map stays in the order of raising.
    this.seen.delete(key);
    this.seen.set(key, largest);
    if (this.seen.size > this.most) this.seen.delete(this.seen.keys().next().value as string);
    return largest;
  }
}
