import assert from 'node:assert/strict';
import type { Clock } from '../../common/clock.js';
import { LOCK, placeholderOf, type Claim } from '../../port/lock-store.js';
import { LockStoreError } from '../../port/lock.errors.js';
import { storeThatCan } from '../../port/capabilities.js';
import type {
  AcquireReply,
  AcquireRequest,
  Busy,
  ReleaseReply,
  Grant,
  LockStore,
  Notification,
  Queued,
  RenewalReply,
} from '../../port/lock-store.js';

/** Longer than any case takes. */
const LONG_LEASE_MS = 30_000;

/** One owner of one client, for one key. It obeys the rules that the port sets for the core. */
export class TestOwner {
  readonly notifications: Notification[] = [];
  private claim: Claim = LOCK;
  private leaseMs = LONG_LEASE_MS;
  private ticket = 0;
  private granted: Grant | undefined;

  constructor(
    private readonly stage: Patience,
    readonly store: LockStore,
    readonly owner: string,
    readonly key: string,
  ) {
    store.notifications$.subscribe((notification) => {
      if (notification.owner !== this.owner) return;
      this.notifications.push(notification);
      if (notification.kind === 'granted') this.granted ??= notification;
    });
  }

  /** The first grant that this owner got, by a reply or by a notification. */
  get grant(): Grant {
    assert.ok(this.granted, `${this.owner} was never granted "${this.key}"`);
    return this.granted;
  }

  /** Builds the next acquire request. Claim, ticket and lease are those of the previous one unless they are given. */
  request(options: AcquireOptions = {}): AcquireRequest {
    const { key, owner, claim, leaseMs, ticket } = this;
    const request = { key, owner, claim, leaseMs, ticket, mayWait: false, tokens: 1, ...options };
    this.claim = request.claim;
    this.leaseMs = request.leaseMs;
    return request;
  }

  /** Sends an acquire request, the first one or a recheck. */
  async tryAcquire(options: AcquireOptions = {}): Promise<AcquireReply> {
    const reply = await this.send(this.request(options));
    if (reply.kind === 'granted') this.granted ??= reply;
    if (reply.kind === 'queued') this.ticket = reply.ticket;
    return reply;
  }

  /**
   * Sends the request. Repeats it while the store is unreachable, as the core does, because a new client may need longer to connect than
   * one request waits.
   */
  private async send(
    request: AcquireRequest,
    sendCopy = () => this.store.acquire(request),
  ): Promise<AcquireReply> {
    let reply: AcquireReply | undefined;
    await this.stage.eventually('the back end can be reached', async () => {
      reply = await sendCopy().catch(ifUnreachable);
      return reply !== undefined;
    });
    return reply as AcquireReply;
  }

  async acquire(options: AcquireOptions = {}): Promise<Grant> {
    const reply = await this.tryAcquire(options);
    assert.equal(reply.kind, 'granted', `"${this.key}" should have been free`);
    return reply as Grant;
  }

  async queue(options: AcquireOptions = {}): Promise<Queued> {
    const reply = await this.tryAcquire({ mayWait: true, ...options });
    assert.equal(reply.kind, 'queued', `"${this.key}" should have been held`);
    return reply as Queued;
  }

  async expectBusy(options: AcquireOptions = {}): Promise<Busy> {
    const reply = await this.tryAcquire(options);
    assert.equal(reply.kind, 'busy', `"${this.key}" should have been held`);
    return reply as Busy;
  }

  /** Rechecks until the owner is granted the lock, whether or not a notification comes. */
  async waitForGrant(options: AcquireOptions = {}): Promise<Grant> {
    let reply: AcquireReply | undefined;
    await this.stage.eventually(`${this.owner} is granted "${this.key}"`, async () => {
      reply = await this.tryAcquire({ mayWait: true, ...options });
      return reply.kind === 'granted';
    });
    return reply as Grant;
  }

  async renew(options: RenewOptions = {}): Promise<RenewalReply> {
    const { claim = this.claim, leaseMs = this.leaseMs, grant = this.grant } = options;
    this.claim = claim;
    const { key, owner } = this;
    const { token, lastToken } = grant;
    const [reply] = await this.store.renew([{ key, owner, claim, leaseMs, token, lastToken }]);
    assert.ok(reply, 'there is one reply for each renewal');
    return reply;
  }

  async expectRenewed(options?: RenewOptions): Promise<void> {
    assert.equal((await this.renew(options)).kind, 'renewed');
  }

  async expectLost(options?: RenewOptions): Promise<void> {
    assert.equal((await this.renew(options)).kind, 'lost');
  }

  /** Renews one last time, to a short lease that will expire. Call it only after the waiters have joined the queue. */
  async stopsRenewing(): Promise<void> {
    await this.expectRenewed({ leaseMs: this.stage.shortLeaseMs });
  }

  /** Waits until the lease of this holder has run out. */
  async expires(): Promise<void> {
    await this.stage.eventually('the lease is over', async () => !(await this.isHolder()));
  }

  /**
   * @param usedUpTo the last fencing token that was used, so that the store may take back those after it; without it the store takes none
   * back
   * @param holdUntil the end of a minimum hold
   */
  release(usedUpTo?: number, holdUntil?: number): Promise<ReleaseReply> {
    const { key, owner, claim, leaseMs } = this;
    const used = usedUpTo === undefined ? {} : { used: { token: usedUpTo, lastToken: this.grant.lastToken } };
    return this.store.release({ key, owner, claim, leaseMs, ...used, ...(holdUntil && { holdUntil }) });
  }

  /** Leaves the lock to an owner that attaches it within `leaseMs`. @param used the last token that was used */
  detach(used: number, leaseMs: number): Promise<ReleaseReply> {
    return this.release(used, this.stage.clock.now() + leaseMs);
  }

  /** Goes on with the lock that `former` has detached under `token`. */
  async attach(former: TestOwner, token: number, options: AcquireOptions = {}): Promise<AcquireReply> {
    const request = { ...this.request(options), from: placeholderOf(former.owner), token };
    const reply = await this.send(request, () => storeThatCan(this.store, 'attach').attach(request));
    if (reply.kind === 'granted') this.granted ??= reply;
    return reply;
  }

  async isHolder(): Promise<boolean> {
    return (await this.store.inspect(this.key))?.holders.includes(this.owner) ?? false;
  }

  wasNotified(kind: Notification['kind']): boolean {
    return this.notifications.some((notification) => notification.kind === kind);
  }

  async notified<Kind extends Notification['kind']>(
    kind: Kind,
  ): Promise<Extract<Notification, { kind: Kind }>> {
    await this.stage.eventually(`${this.owner} is told "${kind}"`, () => this.wasNotified(kind));
    const notification = this.notifications.find((each) => each.kind === kind);
    return notification as Extract<Notification, { kind: Kind }>;
  }
}

interface Patience {
  readonly clock: Clock;
  readonly shortLeaseMs: number;
  /** Lets time pass until `isSo` is true. */
  eventually(what: string, isSo: () => boolean | Promise<boolean>): Promise<void>;
}

export type AcquireOptions = Partial<Omit<AcquireRequest, 'key' | 'owner'>>;

interface RenewOptions {
  readonly claim?: Claim;
  readonly leaseMs?: number;
  readonly grant?: Grant;
}

/** Ignores the error of a request that was not sent. @throws any other error */
function ifUnreachable(error: unknown): undefined {
  if (!(error instanceof LockStoreError) || error.reason !== 'unreachable') throw error;
}
