import { leaseValidity } from '../../port/lease-validity.js';
import type { Grant } from '../../port/lock-store.js';
import type { LeaseClient, LeaseStart } from '../core/leases.js';

/** How many times in the length of a session this client tells its holders until when they may believe in their leases. */
const TOLD_PER_SESSION = 12;

/**
 * The leases of this client under a session. A holder must not believe in its lease for longer than in the session. So this
 * notifies it of its grant again, under the same token, as keep-alives prolong the session.
 */
export class SessionBoundLeases {
  private readonly leases = new Map<string, BoundLease>();
  private cancel: (() => void) | undefined;

  /** @param sessionUntil until when, on our clock, the session stays for certain */
  constructor(
    private readonly client: Pick<LeaseClient, 'clock' | 'watchdogTimeoutMs' | 'holds' | 'notify'>,
    private readonly sessionUntil: () => number,
  ) {}

  start({ key, owner, token, lastToken, leaseMs, sentAt }: LeaseStart): void {
    this.leases.delete(owner);
    const endsAt = leaseValidity(sentAt, leaseMs);
    const toldUntil = Math.min(endsAt, this.sessionUntil());
    if (toldUntil === endsAt) return;
    this.leases.set(owner, { key, token, lastToken, endsAt, toldUntil });
    this.schedule();
  }

  end(owner: string): void {
    this.leases.delete(owner);
  }

  close(): void {
    this.cancel?.();
    this.leases.clear();
  }

  private schedule(): void {
    const { clock, watchdogTimeoutMs } = this.client;
    this.cancel ??= clock.after(watchdogTimeoutMs / TOLD_PER_SESSION, () => {
      this.cancel = undefined;
      for (const [owner, lease] of this.leases) this.tell(owner, lease);
      if (this.leases.size > 0) this.schedule();
    });
  }

  private tell(owner: string, lease: BoundLease): void {
    const { key, token, lastToken, endsAt, toldUntil } = lease;
    if (toldUntil === endsAt || !this.client.holds(key, owner, token)) {
      this.leases.delete(owner);
      return;
    }
    const validUntil = Math.min(endsAt, this.sessionUntil());
    if (validUntil <= toldUntil) return;
    lease.toldUntil = validUntil;
    this.client.notify({ kind: 'granted', owner, token, lastToken, validUntil, waiting: 0, confirmed: true });
  }
}

interface BoundLease extends Pick<Grant, 'token' | 'lastToken'> {
  readonly key: string;
  /** End of the validity, if the session lasts. */
  readonly endsAt: number;
  toldUntil: number;
}
