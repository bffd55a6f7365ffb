import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { braced, tagged } from './redisson-names.js';
import { untilAcquired } from './redisson-waiter.js';

const TRY_SET = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
redis.call(ARGV[2], KEYS[2], ARGV[1])
return 1`;

/** KEYS counter, deadlines, channel; ARGV n, deadline, now, never, publish, ids. */
const TRY_ACQUIRE = `
local expired = redis.call('ZRANGEBYSCORE', KEYS[2], 0, ARGV[3], 'LIMIT', 0, ARGV[1])
if #expired > 0 then
  redis.call('ZREM', KEYS[2], unpack(expired))
  local value = redis.call('INCRBY', KEYS[1], #expired)
  if value > 0 then redis.call(ARGV[5], KEYS[3], value) end
end
local value = tonumber(redis.call('GET', KEYS[1]))
if value and value >= tonumber(ARGV[1]) then
  redis.call('DECRBY', KEYS[1], ARGV[1])
  for i = 6, #ARGV do redis.call('ZADD', KEYS[2], ARGV[2], ARGV[i]) end
  local ttl = redis.call('PTTL', KEYS[1])
  if ttl > 0 then redis.call('PEXPIRE', KEYS[2], ttl) end
  return 'OK'
end
local nearest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
if nearest and nearest ~= ARGV[4] then return ':' .. nearest end
return nil`;

/** KEYS counter, channel, deadlines; ARGV id, now, publish. */
const RELEASE = `
local deadline = redis.call('ZSCORE', KEYS[3], ARGV[1])
if not deadline then return 0 end
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call(ARGV[3], KEYS[2], redis.call('INCRBY', KEYS[1], 1))
if tonumber(deadline) <= tonumber(ARGV[2]) then return 0 end
return 1`;

const NEVER = '922337203685477';
const LONGEST_SLEEP_MS = 30_000;

/** Where Redisson's clients hear that permits have come back. */
export function permitsChannelOf(name: string): string {
  return tagged('redisson_sc', name);
}

/** A Java service with Redisson's RPermitExpirableSemaphore: the same state and messages in Redis. */
export class RedissonPermits {
  readonly channel: string;
  /** The permits by the end of their lease. */
  readonly deadlines: string;
  private readonly redis: Redis;
  private readonly subscriber: Redis;

  constructor(
    url: string,
    readonly name: string,
  ) {
    this.channel = permitsChannelOf(name);
    this.deadlines = `${braced(name)}:timeout`;
    this.redis = new Redis(url);
    this.subscriber = new Redis(url);
  }

  /** @returns 1 when there was no number before */
  trySetPermits(count: number): Promise<number> {
    return this.redis.eval(TRY_SET, 2, this.name, this.channel, count, 'PUBLISH') as Promise<number>;
  }

  /**
   * @param leaseMs without one a permit never comes free by itself
   * @returns the ids, or when to try again at the latest, in ms of the epoch; `null` when only a message will tell
   */
  async tryAcquire(count = 1, leaseMs?: number): Promise<readonly Buffer[] | number | null> {
    const ids = Array.from({ length: count }, () => randomBytes(16));
    const now = Date.now();
    const deadline = leaseMs === undefined ? NEVER : now + leaseMs;
    const keys = [this.name, this.deadlines, this.channel];
    const args = [count, deadline, now, NEVER, 'PUBLISH', ...ids];
    const reply = (await this.redis.eval(TRY_ACQUIRE, 3, ...keys, ...args)) as string | null;
    if (reply === 'OK') return ids;
    return reply === null ? null : Number(reply.slice(1));
  }

  async acquire(count = 1, leaseMs?: number): Promise<readonly Buffer[]> {
    let ids: readonly Buffer[] = [];
    await untilAcquired(this.subscriber, this.channel, async () => {
      const answer = await this.tryAcquire(count, leaseMs);
      if (typeof answer === 'number') return Math.max(0, answer - Date.now());
      if (answer === null) return LONGEST_SLEEP_MS;
      ids = answer;
      return null;
    });
    return ids;
  }

  /** @returns 1, or 0 when it was unknown or its lease was over */
  release(id: Buffer | undefined): Promise<number> {
    const keys = [this.name, this.channel, this.deadlines];
    return this.redis.eval(RELEASE, 3, ...keys, id ?? '', Date.now(), 'PUBLISH') as Promise<number>;
  }

  async close(): Promise<void> {
    await Promise.all([this.redis.quit(), this.subscriber.quit()]);
  }
}
