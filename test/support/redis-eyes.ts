import { Redis } from 'ioredis';
import { until } from '#until';

/** A plain client that looks at what a server holds, past the library. */
export class RedisEyes {
  readonly client: Redis;

  constructor(url: string) {
    this.client = new Redis(url, { retryStrategy: () => 20, maxRetriesPerRequest: null });
    this.client.on('error', () => undefined);
  }

  /** The owner in the lock hash. */
  async holder(key: string): Promise<string | undefined> {
    return (await this.client.hkeys(key))[0];
  }

  queue(key: string): Promise<string[]> {
    return this.client.zrange(`nest_lock_queue:{${key}}`, '0', '-1');
  }

  /** All that is left of a lock apart from its token. */
  async remains(key: string): Promise<string[]> {
    const keys = [key, `nest_lock_queue:{${key}}`, `nest_lock_meta:{${key}}`];
    const found = await Promise.all(keys.map((name) => this.client.exists(name)));
    return keys.filter((_, i) => found[i] === 1);
  }

  /** How many there were since the server started: one more for each that was replaced. */
  async connectionsReceived(): Promise<number> {
    const [, count] = /total_connections_received:(\d+)/.exec(await this.client.info('stats')) ?? [];
    return Number(count);
  }

  async untilQueued(key: string, count: number): Promise<void> {
    await until(async () => (await this.queue(key)).length === count);
  }

  /** Until the lease of `key` has been set anew, seen by more of it being left than a moment ago. */
  async untilRenewed(key: string): Promise<void> {
    let last = Infinity;
    await until(async () => {
      const left = await this.client.pttl(key);
      const isMore = left > last;
      last = left;
      return isMore;
    });
  }

  /** Until so many clients of the library are subscribed. */
  async untilListening(count: number): Promise<void> {
    await until(
      async () => ((await this.client.pubsub('CHANNELS', 'nest_lock_notify:*')) as string[]).length === count,
    );
  }

  close(): void {
    this.client.disconnect();
  }
}
