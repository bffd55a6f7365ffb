import { SILENT_WAITER_MS } from '../../port/recheck-interval.js';
import type { Clock } from '../../time/clock.js';

/**
 * The leases and tickets of this client's owners, for a back end that ends none itself. It keeps them as long as the session
 * lasts, so this client must end each of them when its time is over.
 */
export class ClientSideExpiry {
  private readonly leases = new Map<string, Lease>();
  /** The owner of the adopted entry of each key. */
  private readonly adopted = new Map<string, string>();
  /** How long an adopted entry stays, in case the reply to a request of its owner is still under way. */
  private adoptedMs = SILENT_WAITER_MS;
  private firesAt = Infinity;
  private cancel = (): void => undefined;
  private readonly ending = new Set<string>();
  private onEnded = (): void => undefined;

  /** @param release ends the lease in the back end; called when the lease is over, and every `retryMs` until `end` is called */
  constructor(
    private readonly clock: Clock,
    private readonly retryMs: number,
    private readonly release: (key: string, owner: string) => void,
  ) {}

  start(key: string, owner: string, ms: number): void {
    const endsAt = this.clock.now() + ms;
    this.leases.set(owner, { key, endsAt });
    this.fireAt(endsAt);
  }

  /**
   * Starts a lease for an entry whose owner has none here. If no reply starts another one meanwhile, this client ends the entry
   * like a silent waiter. Most such entries were released meanwhile, so one for each key at a time is enough.
   */
  adopt(key: string, owner: string): void {
    if (this.leases.has(owner) || this.adopted.has(key)) return;
    this.adopted.set(key, owner);
    this.start(key, owner, this.adoptedMs);
  }

  /** This client closes, so adopted entries end at once. */
  endAdopted(): void {
    this.adoptedMs = 0;
    for (const [key, owner] of this.adopted) this.start(key, owner, 0);
  }

  /** A request that prolongs the lease is about to be sent, so that it must not end meanwhile. */
  extend(owner: string, ms: number): void {
    const lease = this.leases.get(owner);
    if (lease) lease.endsAt = Math.max(lease.endsAt, this.clock.now() + ms);
  }

  end(owner: string): void {
    const lease = this.leases.get(owner);
    if (!lease) return;
    this.leases.delete(owner);
    if (this.adopted.get(lease.key) === owner) this.adopted.delete(lease.key);
    if (this.ending.delete(owner) && this.ending.size === 0) this.onEnded();
  }

  isOver(owner: string): boolean {
    const lease = this.leases.get(owner);
    return lease !== undefined && lease.endsAt <= this.clock.now();
  }

  /** Resolves when the leases that end within `ms` have ended. */
  whenEnded(ms: number): Promise<void> {
    const until = this.clock.now() + ms;
    for (const [owner, { endsAt }] of this.leases) if (endsAt <= until) this.ending.add(owner);
    return this.ending.size === 0 ? Promise.resolve() : new Promise((resolve) => (this.onEnded = resolve));
  }

  /** @returns whether leases were left */
  stop(): boolean {
    this.cancel();
    this.firesAt = -Infinity;
    return this.leases.size > 0;
  }

  private fireAt(at: number): void {
    if (at >= this.firesAt) return;
    this.cancel();
    this.firesAt = at;
    this.cancel = this.clock.after(Math.max(0, at - this.clock.now()), () => this.fire());
  }

  private fire(): void {
    this.firesAt = Infinity;
    const now = this.clock.now();
    let next = Infinity;
    for (const [owner, { key, endsAt }] of this.leases) {
      next = Math.min(next, endsAt > now ? endsAt : now + this.retryMs);
      if (endsAt <= now) this.release(key, owner);
    }
    if (next < Infinity) this.fireAt(next);
  }
}

interface Lease {
  readonly key: string;
  endsAt: number;
}
