import { LockStoreError } from '../../../port/lock.errors.js';
import type { Client } from '../connection/redis.command.js';
import type { RedisConnection } from '../connection/redis.connection.js';
import { unknown } from '../connection/redis.errors.js';

interface Count {
  readonly replicas: number;
  /** Which of the connections, one after the other, it was counted on. */
  readonly connection: number;
}

/**
 * Counts the replicas that have what this client has written, by `WAIT`.
 *
 * On the connection of the commands, since `WAIT` counts from the last write of its own: a connection that has replaced
 * that one, perhaps to another master, knows nothing of the grant. Callers who come together share one.
 */
export class ReplicaAcks {
  private counting: Promise<unknown> = Promise.resolve();
  private next: Promise<Count> | undefined;

  constructor(
    private readonly connection: RedisConnection,
    private readonly atLeast: number,
    private readonly withinMs: number,
  ) {}

  /**
   * Right after the answer to the write in question.
   *
   * @throws LockStoreError when fewer replicas have it in time, or it cannot be told: it may be lost with the master
   */
  async haveSeen(key: string): Promise<void> {
    const { generation } = this.connection;
    const { replicas, connection } = await this.count(key);
    if (connection !== generation)
      throw unknown('the connection was lost before its replicas were counted', key);
    if (replicas >= this.atLeast) return;
    const message = `Could not acquire "${key}": ${replicas} of ${this.atLeast} replicas had it after ${this.withinMs} ms. Lower minReplicaAcks, or look after the replicas.`;
    throw new LockStoreError(message, key, 'unknown');
  }

  /** One that is under way may have begun before the write: the one after it counts. */
  private count(key: string): Promise<Count> {
    this.next ??= this.counting.then(() => {
      this.next = undefined;
      const count = this.wait(key);
      this.counting = count.catch(() => undefined);
      return count;
    });
    return this.next;
  }

  private wait(key: string): Promise<Count> {
    let connection = 0;
    const send = (client: Client): Promise<number> => {
      connection = this.connection.generation;
      return client.wait(this.atLeast, this.withinMs);
    };
    const read = (replicas: number): Count => ({ replicas, connection });
    return this.connection.run({ urgency: 'renew', key, send, read });
  }
}
