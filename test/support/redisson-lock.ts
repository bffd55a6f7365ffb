import { randomBytes, randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { tagged } from './redisson-names.js';
import { untilAcquired } from './redisson-waiter.js';

const ACQUIRE = `
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
return redis.call('PTTL', KEYS[1])`;

const UNLOCK = `
local done = redis.call('GET', KEYS[3])
if done then return tonumber(done) end
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then return nil end
if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('SET', KEYS[3], '0', 'PX', ARGV[5])
  return 0
end
redis.call('DEL', KEYS[1])
redis.call(ARGV[4], KEYS[2], ARGV[1])
redis.call('SET', KEYS[3], '1', 'PX', ARGV[5])
return 1`;

const FORCE_UNLOCK = `
if redis.call('DEL', KEYS[1]) == 0 then return 0 end
redis.call(ARGV[2], KEYS[2], ARGV[1])
return 1`;

const LATCH_MS = 18_000;
const UNLOCKED = '0';

/** Where Redisson's clients hear that a lock is free. */
export function channelOf(name: string): string {
  return tagged('redisson_lock__channel', name);
}

/** A thread of a Java service with Redisson, as far as one exclusive lock goes: the same state and messages in Redis. */
export class RedissonLock {
  readonly channel: string;
  readonly owner: string;
  private readonly redis: Redis;
  private readonly subscriber: Redis;

  constructor(
    url: string,
    readonly name: string,
    threadId = 1,
    clientId: string = randomUUID(),
  ) {
    this.channel = channelOf(name);
    this.owner = `${clientId}:${threadId}`;
    this.redis = new Redis(url);
    this.subscriber = new Redis(url);
  }

  latch(requestId: string): string {
    return `${tagged('redisson_unlock_latch', this.name)}:${requestId}`;
  }

  /** @returns `null` when acquired, otherwise what is left of the holder's lease in ms */
  tryLock(leaseMs = 30_000): Promise<number | null> {
    return this.redis.eval(ACQUIRE, 1, this.name, leaseMs, this.owner) as Promise<number | null>;
  }

  /** As `lock()` waits: listens first, tries once more, then sleeps until a message comes or the lease is over. */
  async lock(leaseMs = 30_000): Promise<void> {
    await untilAcquired(this.subscriber, this.channel, () => this.tryLock(leaseMs));
  }

  /** @returns 1 when freed, 0 when still held, `null` when it was not ours; asked again with the same id the same */
  async unlock(requestId = randomBytes(16).toString('hex')): Promise<number | null> {
    const { name, channel, owner } = this;
    const args = [UNLOCKED, 30_000, owner, 'PUBLISH', LATCH_MS];
    return (await this.redis.eval(UNLOCK, 3, name, channel, this.latch(requestId), ...args)) as number | null;
  }

  forceUnlock(): Promise<number> {
    return this.redis.eval(FORCE_UNLOCK, 2, this.name, this.channel, UNLOCKED, 'PUBLISH') as Promise<number>;
  }

  async close(): Promise<void> {
    await Promise.all([this.redis.quit(), this.subscriber.quit()]);
  }
}
