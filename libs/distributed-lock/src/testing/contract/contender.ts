import assert from 'node:assert/strict';
import { LOCK, type Claim } from '../../port/claim.js';
import type {
  AcquireReply,
  AcquireRequest,
  ReleaseReply,
  Grant,
  LockStore,
  Notification,
  Queued,
  RenewalReply,
} from '../../port/lock-store.js';

/** Lets time pass until `isSo` holds. */
interface Patience {
  eventually(what: string, isSo: () => boolean | Promise<boolean>): Promise<void>;
}

/** Longer than any case takes: a lease that does not end while the test looks. */
const LONG_LEASE_MS = 30_000;

type AskOptions = Partial<Omit<AcquireRequest, 'key' | 'owner'>>;

interface RenewOptions {
  readonly claim?: Claim;
  readonly leaseMs?: number;
  readonly grant?: Grant;
}

/** One owner at one client: asks for one key, by the rules that the port sets for those who use it. */
export class Contender {
  readonly pushes: Notification[] = [];
  private claim: Claim = LOCK;
  private leaseMs = LONG_LEASE_MS;
  private place = 0;
  private granted: Grant | undefined;

  constructor(
    private readonly bench: Patience,
    readonly store: LockStore,
    readonly owner: string,
    readonly key: string,
  ) {
    store.notifications$.subscribe((push) => {
      if (push.owner !== this.owner) return;
      this.pushes.push(push);
      if (push.kind === 'granted') this.granted ??= push;
    });
  }

  /** The grant that this owner was told of first. */
  get grant(): Grant {
    assert.ok(this.granted, `${this.owner} was never granted "${this.key}"`);
    return this.granted;
  }

  /** What this owner asks for, to be asked: the claim, the place and the lease are those of the asking before. */
  asks(options: AskOptions = {}): AcquireRequest {
    const {
      claim = this.claim,
      leaseMs = this.leaseMs,
      waitMs = 0,
      ticket: place = this.place,
      tokens = 1,
      minLastToken: reserveTo = 0,
    } = options;
    this.claim = claim;
    this.leaseMs = leaseMs;
    const { key, owner } = this;
    return { key, owner, claim, leaseMs, waitMs, ticket: place, tokens, minLastToken: reserveTo };
  }

  /** Asks, or looks again. */
  async ask(options: AskOptions = {}): Promise<AcquireReply> {
    const reply = await this.store.acquire(this.asks(options));
    if (reply.kind === 'granted') this.granted ??= reply;
    if (reply.kind === 'queued') this.place = reply.ticket;
    return reply;
  }

  async acquire(options: AskOptions = {}): Promise<Grant> {
    const reply = await this.ask(options);
    assert.equal(reply.kind, 'granted', `"${this.key}" should have been free`);
    return reply as Grant;
  }

  async queue(options: AskOptions = {}): Promise<Queued> {
    const reply = await this.ask({ waitMs: Infinity, ...options });
    assert.equal(reply.kind, 'queued', `"${this.key}" should have been held`);
    return reply as Queued;
  }

  /** Looks until it is granted, whether or not the grant is pushed. */
  async acquireInTurn(options: AskOptions = {}): Promise<Grant> {
    let reply: AcquireReply | undefined;
    await this.bench.eventually(`${this.owner} is granted "${this.key}"`, async () => {
      reply = await this.ask({ waitMs: Infinity, ...options });
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

  /**
   * @param usedUpTo the last token that was used; without it nothing is given back
   * @param keepUntil the end of a minimum hold
   */
  end(usedUpTo?: number, keepUntil?: number): Promise<ReleaseReply> {
    const { key, owner, claim, leaseMs } = this;
    const used = usedUpTo === undefined ? {} : { used: { token: usedUpTo, lastToken: this.grant.lastToken } };
    return this.store.release({ key, owner, claim, leaseMs, ...used, ...(keepUntil && { keepUntil }) });
  }

  async isHolder(): Promise<boolean> {
    return (await this.store.inspect(this.key))?.holders.includes(this.owner) ?? false;
  }

  async pushed<Kind extends Notification['kind']>(
    kind: Kind,
  ): Promise<Extract<Notification, { kind: Kind }>> {
    const find = () => this.pushes.find((push) => push.kind === kind);
    await this.bench.eventually(`"${kind}" is pushed to ${this.owner}`, () => find() !== undefined);
    return find() as Extract<Notification, { kind: Kind }>;
  }
}
