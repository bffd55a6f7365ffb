import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { redisStore } from 'nestjs-distributed-lock/redis';
import type { LockServiceOptions } from '../../../libs/distributed-lock/src/lock/request/lock-options.js';
import { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import { until } from '#until';

const END = 'end of test';

/** One name, the Java and Nest processes that share it, and all that was published on its channel. */
export class RedissonStage {
  readonly name = `order:${randomUUID()}`;
  readonly redis: Redis;
  private readonly ears: Redis;
  private readonly heard: string[] = [];
  private readonly closers: (() => Promise<unknown>)[] = [];

  constructor(
    readonly url: string,
    private readonly channelOf: (name: string) => string,
  ) {
    this.redis = new Redis(url);
    this.ears = new Redis(url);
    this.ears.on('message', (_channel: string, message: string) => this.heard.push(message));
  }

  /** Closed with the stage. */
  add<T extends { close(): Promise<unknown> }>(process: T): T {
    this.closers.push(() => process.close());
    return process;
  }

  node(options: Partial<LockServiceOptions> = {}): LockService {
    const service = new LockService({ shutdownGraceMs: 0, store: redisStore(this.url), ...options });
    service.open();
    return this.add(service);
  }

  async listen(): Promise<void> {
    await this.ears.subscribe(this.channelOf(this.name));
  }

  /** All that was heard on the channel until now, and nothing that is still under way. */
  async heardSoFar(): Promise<string[]> {
    await this.redis.publish(this.channelOf(this.name), END);
    await until(() => this.heard.includes(END));
    return this.heard.splice(0).filter((message) => message !== END);
  }

  async untilListening(count: number): Promise<void> {
    const channel = this.channelOf(this.name);
    await until(async () => (await this.redis.pubsub('NUMSUB', channel))[1] === count);
  }

  async untilQueued(count: number): Promise<void> {
    await until(async () => (await this.redis.zcard(`nest_lock_queue:{${this.name}}`)) === count);
  }

  /** What there is of the lock, apart from its tokens and what Redisson keeps of its own unlocks. */
  async remains(): Promise<string[]> {
    const keys = await this.redis.keys(`*${this.name}*`);
    return keys.filter((key) => !/nest_lock_(token|meta)|redisson_unlock_latch/.test(key));
  }

  async close(): Promise<void> {
    await Promise.all(this.closers.map((close) => close()));
    await Promise.all([this.redis.quit(), this.ears.quit()]);
  }
}
