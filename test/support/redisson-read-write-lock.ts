import { randomBytes, randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { braced, tagged } from './redisson-names.js';
import { untilAcquired } from './redisson-waiter.js';

const READ = `
local mode = redis.call('HGET', KEYS[1], 'mode')
if mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then return redis.call('PTTL', KEYS[1]) end
if not mode then redis.call('HSET', KEYS[1], 'mode', 'read') end
local hold = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('SET', KEYS[2] .. ':' .. hold, 1, 'PX', ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[1])))
return nil`;

const UNLOCK_READ = `
local done = redis.call('GET', KEYS[5])
if done then return tonumber(done) end
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call(ARGV[3], KEYS[2], ARGV[1])
  redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])
  return nil
end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end
local left = redis.call('HINCRBY', KEYS[1], ARGV[2], -1)
if left == 0 then redis.call('HDEL', KEYS[1], ARGV[2]) end
redis.call('DEL', KEYS[3] .. ':' .. (left + 1))
if redis.call('HLEN', KEYS[1]) > 1 then
  local longest = -3
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    for hold = tonumber(redis.call('HGET', KEYS[1], field)) or 0, 1, -1 do
      longest = math.max(longest, redis.call('PTTL', KEYS[4] .. ':' .. field .. ':rwlock_timeout:' .. hold))
    end
  end
  if longest > 0 then redis.call('PEXPIRE', KEYS[1], longest) end
  if longest > 0 or mode == 'write' then
    redis.call('SET', KEYS[5], 0, 'PX', ARGV[4])
    return 0
  end
end
redis.call('DEL', KEYS[1])
redis.call(ARGV[3], KEYS[2], ARGV[1])
redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])
return 1`;

const WRITE = `
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
local left = redis.call('PTTL', KEYS[1])
if mode == 'read' or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return left end
redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], left + ARGV[1])
return nil`;

const UNLOCK_WRITE = `
local done = redis.call('GET', KEYS[3])
if done then return tonumber(done) end
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call(ARGV[4], KEYS[2], ARGV[1])
  redis.call('SET', KEYS[3], 1, 'PX', ARGV[5])
  return nil
end
if mode == 'read' or redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then return nil end
if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('SET', KEYS[3], 0, 'PX', ARGV[5])
  return 0
end
redis.call('HDEL', KEYS[1], ARGV[3])
if redis.call('HLEN', KEYS[1]) == 1 then
  redis.call('DEL', KEYS[1])
  redis.call(ARGV[4], KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[1], 'mode', 'read')
end
redis.call('SET', KEYS[3], 1, 'PX', ARGV[5])
return 1`;

/** One owner of this process; Redisson sends all of a lock together. */
const RENEW_READ = `
local holds = tonumber(redis.call('HGET', KEYS[1], ARGV[2]))
if not holds then return 0 end
local alive = 0
for hold = holds, 1, -1 do
  alive = math.max(alive, redis.call('PEXPIRE', KEYS[2] .. ':' .. ARGV[2] .. ':rwlock_timeout:' .. hold, ARGV[1]))
end
if alive == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 1`;

const LEASE_MS = 30_000;
const LATCH_MS = 18_000;
/** One waiter of each client wakes up, or all do. */
const [WAKE_ONE, WAKE_ALL] = ['0', '1'];

type Answer = Promise<number | null>;

/** Where Redisson's clients hear that a read-write lock has room. */
export function readWriteChannelOf(name: string): string {
  return tagged('redisson_rwlock', name);
}

/** A thread of a Java service with Redisson's RReadWriteLock: the same state and messages in Redis. */
export class RedissonReadWriteLock {
  readonly owner: string;
  readonly channel: string;
  private readonly redis: Redis;
  private readonly subscriber: Redis;

  constructor(
    url: string,
    readonly name: string,
    threadId = 1,
    clientId: string = randomUUID(),
  ) {
    this.owner = `${clientId}:${threadId}`;
    this.channel = readWriteChannelOf(name);
    this.redis = new Redis(url);
    this.subscriber = new Redis(url);
  }

  /** The key that lives as long as the lease of one hold of this reader, from 1 on. */
  holdKey(hold: number): string {
    return `${this.holds}:${hold}`;
  }

  /** @returns `null` when acquired, otherwise what is left of the lock in ms */
  tryRead(leaseMs = LEASE_MS): Answer {
    const { name, holds, owner } = this;
    return this.redis.eval(READ, 2, name, holds, leaseMs, owner, this.writer) as Answer;
  }

  tryWrite(leaseMs = LEASE_MS): Answer {
    return this.redis.eval(WRITE, 1, this.name, leaseMs, this.writer) as Answer;
  }

  read(leaseMs = LEASE_MS): Promise<void> {
    return untilAcquired(this.subscriber, this.channel, () => this.tryRead(leaseMs));
  }

  write(leaseMs = LEASE_MS): Promise<void> {
    return untilAcquired(this.subscriber, this.channel, () => this.tryWrite(leaseMs));
  }

  /** @returns 1 when the lock was freed, 0 when it still has holders, `null` when it was not ours */
  unlockRead(): Answer {
    const { name, channel, holds, owner } = this;
    const keys = [name, channel, holds, braced(name), this.newLatch()];
    return this.redis.eval(UNLOCK_READ, 5, ...keys, WAKE_ONE, owner, 'PUBLISH', LATCH_MS) as Answer;
  }

  /** @returns 1 when nothing is left of the writing, 0 when it is held still, `null` when it was not ours */
  unlockWrite(): Answer {
    const { name, channel, writer } = this;
    const keys = [name, channel, this.newLatch()];
    return this.redis.eval(
      UNLOCK_WRITE,
      3,
      ...keys,
      WAKE_ALL,
      LEASE_MS,
      writer,
      'PUBLISH',
      LATCH_MS,
    ) as Answer;
  }

  /** What the watchdog does. @returns 1 when it still reads */
  renewRead(): Promise<number> {
    const { name, owner } = this;
    return this.redis.eval(RENEW_READ, 2, name, braced(name), LEASE_MS, owner) as Promise<number>;
  }

  async close(): Promise<void> {
    await Promise.all([this.redis.quit(), this.subscriber.quit()]);
  }

  private get writer(): string {
    return `${this.owner}:write`;
  }

  private get holds(): string {
    return `${braced(this.name)}:${this.owner}:rwlock_timeout`;
  }

  private newLatch(): string {
    return `${tagged('redisson_unlock_latch', this.name)}:${randomBytes(16).toString('hex')}`;
  }
}
