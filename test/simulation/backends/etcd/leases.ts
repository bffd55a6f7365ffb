import type { Kernel } from '../../kernel/kernel.js';
import { Refusal } from './wire.js';

interface Lease {
  readonly ttlMs: number;
  readonly grantedAt: number;
  /** True time: etcd counts by a monotonic clock. */
  endsAt: number;
  isOver: boolean;
}

/** The leases of etcd. They end at their time, and never while the server is stopped or down. */
export class Leases {
  /** All that were ever granted. */
  private readonly leases = new Map<number, Lease>();

  /**
   * @param trueMs how long so many ms of the server's clock really take
   * @param onEnd is to delete what was put under the lease
   * @param onOverdue is told before, of a lease whose time is over
   */
  constructor(
    private readonly kernel: Kernel,
    private readonly trueMs: (ms: number) => number,
    private readonly isRunning: () => boolean,
    private readonly onEnd: (id: number) => void,
    private readonly onOverdue: (id: number) => void,
  ) {}

  has(id: number): boolean {
    return this.leases.get(id)?.isOver === false;
  }

  /** In true ms. It is never over while the server is stopped or down. */
  leftOf(id: number): number {
    const lease = this.leases.get(id);
    if (!lease || lease.isOver) return 0;
    return this.isRunning() ? Math.max(0, lease.endsAt - this.kernel.now) : Infinity;
  }

  grant(id: number, seconds: number): void {
    if (this.has(id)) throw new Refusal(9, 'etcdserver: lease already exists');
    const { now } = this.kernel;
    const ttlMs = seconds * 1000;
    const endsAt = now + this.trueMs(ttlMs);
    this.leases.set(id, { ttlMs, grantedAt: now, endsAt, isOver: false });
    this.endAt(id, endsAt);
  }

  /** In seconds, as one knows it who has heard nothing since that true time. */
  lengthOf(id: number, since: number): number {
    const lease = this.leases.get(id);
    return lease && (!lease.isOver || lease.endsAt >= since) ? lease.ttlMs / 1000 : 0;
  }

  /** @returns seconds; 0 for a lease that is over */
  keepAlive(id: number): number {
    const lease = this.leases.get(id);
    if (!lease || lease.isOver) return 0;
    const { now } = this.kernel;
    if (lease.endsAt <= now) {
      this.expire(id);
      return 0;
    }
    lease.endsAt = now + this.trueMs(lease.ttlMs);
    this.endAt(id, lease.endsAt);
    return lease.ttlMs / 1000;
  }

  revoke(id: number): void {
    const lease = this.leases.get(id);
    if (!lease || lease.isOver) throw new Refusal(5, 'etcdserver: requested lease not found');
    lease.isOver = true;
    this.onEnd(id);
  }

  /** As a leader does that was elected a moment ago. */
  beginAnew(): void {
    for (const [id, lease] of this.leases) {
      if (lease.isOver) continue;
      lease.endsAt = this.kernel.now + this.trueMs(lease.ttlMs);
      this.endAt(id, lease.endsAt);
    }
  }

  /** Those that were granted since then were never granted, and those that were over since then are not. */
  goBackTo(time: number): void {
    for (const [id, lease] of this.leases) {
      if (lease.grantedAt >= time) this.leases.delete(id);
      else if (lease.endsAt >= time) lease.isOver = false;
    }
  }

  endOverdue(): void {
    for (const [id, { endsAt, isOver }] of this.leases)
      if (!isOver && endsAt <= this.kernel.now) this.expire(id);
  }

  private expire(id: number): void {
    this.onOverdue(id);
    this.revoke(id);
  }

  private endAt(id: number, at: number): void {
    this.kernel.at(at, () => {
      const lease = this.leases.get(id);
      if (lease && !lease.isOver && lease.endsAt <= this.kernel.now && this.isRunning()) this.expire(id);
    });
  }
}
