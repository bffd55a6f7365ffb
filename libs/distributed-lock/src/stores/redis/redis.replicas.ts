import type { Clock } from '../../lock/clock.js';
import { LockStoreError } from '../../lock/lock.errors.js';
import { RedisConnection, type Client } from './redis.connection.js';

/**
 * Counts the replicas that have what the master has written, by `WAIT`.
 *
 * On a connection of its own, since `WAIT` holds up all that comes after it. It counts for everything that was answered
 * before it was asked, so that callers who come together share one.
 */
export class RedisReplicas {
  private readonly connection: RedisConnection;
  private counting: Promise<unknown> = Promise.resolve();
  private next: Promise<number> | undefined;

  constructor(
    client: Client,
    clock: Clock,
    commandTimeoutMs: number,
    private readonly atLeast: number,
    private readonly withinMs: number,
  ) {
    this.connection = new RedisConnection(client, clock, commandTimeoutMs + withinMs);
  }

  /** @throws LockStoreError when fewer replicas have it in time: it may be lost with the master */
  async haveSeen(key: string): Promise<void> {
    const count = await this.count(key);
    if (count >= this.atLeast) return;
    const message = `Could not acquire "${key}": ${count} of ${this.atLeast} replicas had it after ${this.withinMs} ms. It was given back. Lower minReplicaAcks, or look after the replicas.`;
    throw new LockStoreError(message, key, 'unready');
  }

  close(): Promise<void> {
    return this.connection.close();
  }

  /** One that is under way may have begun before the write in question: the one after it counts. */
  private count(key: string): Promise<number> {
    this.next ??= this.counting.then(() => {
      this.next = undefined;
      const count = this.wait(key);
      this.counting = count.catch(() => undefined);
      return count;
    });
    return this.next;
  }

  private async wait(key: string): Promise<number> {
    const { value } = await this.connection.run('ask', key, (client) => {
      // WAIT counts from the last command of its own connection.
      client.time().catch(() => undefined);
      return client.wait(this.atLeast, this.withinMs);
    });
    return value;
  }
}
