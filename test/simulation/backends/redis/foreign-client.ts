import type { RedisHost } from './redis-host.js';

/** One way, in ms: it stands near the server. */
const LATENCY_MS = 1;

/**
 * A thread of Java with Redisson's `RLock`, as docs/redisson.md has its wire format: the hash of the lock, and the channel on which a
 * release is announced. It waits as Redisson does: it subscribes, and asks again at each message and when the lease is over.
 */
export class ForeignClient {
  isHolding = false;
  private key = '';
  private leaseMs = 0;
  private isWaiting = false;
  private isSubscribed = false;

  /** @param owner `uuid:thread`, a UUID of version 4 */
  constructor(
    private readonly host: RedisHost,
    private readonly owner: string,
    private readonly after: (ms: number, run: () => void) => void,
  ) {}

  /** As `lock(leaseTime)`. */
  lock(key: string, leaseMs: number): void {
    this.key = key;
    this.leaseMs = leaseMs;
    this.isWaiting = true;
    this.ask();
  }

  unlock(): void {
    const { host, key, owner, channel } = this;
    this.isHolding = false;
    this.soon(() => {
      if (host.execute(['HDEL', key, owner]) === 1) host.execute(['PUBLISH', channel, '0']);
    });
  }

  /** Its process ends, and its connections with it. */
  crash(): void {
    this.isWaiting = false;
    this.unsubscribe();
  }

  readonly onMessage = (): void => this.soon(() => this.ask());

  private get channel(): string {
    return `redisson_lock__channel:{${this.key}}`;
  }

  private ask(): void {
    if (!this.isWaiting) return;
    const { host, key, owner, leaseMs } = this;
    if (host.execute(['EXISTS', key]) === 0) {
      host.execute(['HSET', key, owner, '1']);
      host.execute(['PEXPIRE', key, String(leaseMs)]);
      this.isWaiting = false;
      this.isHolding = true;
      return this.unsubscribe();
    }
    if (!this.isSubscribed) {
      this.isSubscribed = true;
      host.redis.channels.add(this.channel, this);
      return this.soon(() => this.ask());
    }
    const leftMs = Number(host.execute(['PTTL', key]));
    if (leftMs >= 0) this.after(leftMs + LATENCY_MS, () => this.ask());
  }

  private unsubscribe(): void {
    if (!this.isSubscribed) return;
    this.isSubscribed = false;
    this.host.redis.channels.remove(this.channel, this);
  }

  private soon(run: () => void): void {
    this.after(LATENCY_MS, run);
  }
}
