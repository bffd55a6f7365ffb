import { isExclusive, modeOf, type Claim } from '../../port/claim.js';
import { LockStoreError } from '../../port/lock.errors.js';
import {
  keeperOf,
  type AcquireReply,
  type AcquireRequest,
  type ReleaseRequest,
  type ReleaseReply,
  type Grant,
  type LockSnapshot,
  type Notification,
  type Renewal,
  type RenewalReply,
} from '../../port/lock-store.js';
import { SILENT_WAITER_MS, recheckAfter } from '../../port/recheck-interval.js';
import { leaseValidity } from '../../port/lease-validity.js';

interface Holder {
  readonly owner: string;
  claim: Claim;
  readonly token: number;
  lastToken: number;
  until: number;
}

interface QueueEntry {
  readonly ticket: number;
  request: AcquireRequest;
  /** The entry is dropped after this time, because its owner has stopped waiting or rechecking. */
  until: number;
}

interface Entry {
  /** All of one kind; more than one only if they share the key. */
  holders: Holder[];
  /** In order of ticket. */
  queue: QueueEntry[];
}

type Deliver = (notification: Notification) => void;

const LEAST_SWEEP = 256;

/**
 * The state that all clients of one memory store share, and the same steps as the scripts of the Redis store.
 *
 * No timer ends a lease. The first call for a key after the end of a lease drops the holder and grants the queue. Waiters
 * recheck when the holder's lease ends.
 */
export class MemorySpace {
  private readonly entries = new Map<string, Entry>();
  private readonly clients = new Map<string, Deliver>();
  private lastTicket = 0;
  /** One for all keys: it outlives them, so that nothing is kept for a key that nobody uses. */
  private lastToken: number;
  /** How many keys were left to expire under a minimum hold since the last sweep. No call may ever touch them again. */
  private leftAlone = 0;
  private leftBySweep = 0;

  /** @param startedAt wall-clock ms: tokens start from it, so that they grow across restarts of the process */
  constructor(startedAt = Date.now()) {
    this.lastToken = startedAt * 1000;
  }

  connect(clientId: string, deliver: Deliver): void {
    this.clients.set(clientId, deliver);
  }

  disconnect(clientId: string): void {
    this.clients.delete(clientId);
  }

  acquire(request: AcquireRequest, now: number): AcquireReply {
    const entry = this.touch(request.key, now);
    const { owner, leaseMs } = request;
    const mine = holderOf(entry, owner);
    if (mine) return this.confirm(entry, this.reserve(mine, request.minLastToken ?? 0), leaseMs, now);
    checkKind(entry, request);
    if (request.waitMs > 0) this.joinQueue(entry, request, now);
    this.grantNext(entry, now, owner);
    if (request.waitMs <= 0 && entry.queue.length === 0 && mayEnter(entry, request.claim))
      this.grant(entry, request, now);
    const holder = holderOf(entry, owner);
    if (holder) return this.confirm(entry, holder, leaseMs, now);
    return this.queuedOrBusy(entry, owner, now);
  }

  /** @returns which of them is in use */
  acquireAll(requests: readonly AcquireRequest[], now: number): readonly Grant[] | number {
    const entries = requests.map(({ key }) => this.touch(key, now));
    const inUse = entries.findIndex((entry) => {
      this.grantNext(entry, now);
      return entry.holders.length > 0 || entry.queue.length > 0;
    });
    if (inUse >= 0) {
      requests.forEach(({ key }, i) => this.settle(key, entries[i] as Entry, now));
      return inUse;
    }
    return requests.map((request, i) => {
      const entry = entries[i] as Entry;
      return this.confirm(entry, this.grant(entry, request, now), request.leaseMs, now);
    });
  }

  renew({ key, owner, claim, token, leaseMs }: Renewal, now: number): RenewalReply {
    const entry = this.touch(key, now);
    const mine = holderOf(entry, owner);
    if (mine?.token !== token) {
      this.settle(key, entry, now);
      return { kind: 'lost' };
    }
    // A renewal that was sent before its owner stepped down does not undo that.
    if (isExclusive(mine.claim)) mine.claim = claim;
    this.grantNext(entry, now);
    const { validUntil, waiting } = this.confirm(entry, mine, leaseMs, now);
    return { kind: 'renewed', validUntil, waiting };
  }

  release({ key, owner, used, keepUntil = 0 }: ReleaseRequest, now: number): ReleaseReply {
    const entry = this.touch(key, now);
    entry.queue = entry.queue.filter(({ request }) => request.owner !== owner);
    const held = holderOf(entry, owner);
    entry.holders = entry.holders.filter((holder) => holder !== held);
    if (held && keepUntil > now) this.keep(entry, held, keepUntil, now);
    if (held && used?.lastToken === this.lastToken) this.lastToken = used.token;
    this.settle(key, entry, now);
    return held ? 'released' : 'not held';
  }

  /** For a minimum hold. The first waiter asks again when it is over. */
  private keep(entry: Entry, held: Holder, until: number, now: number): void {
    entry.holders.push({ ...held, owner: keeperOf(held.owner), until });
    const [first] = entry.queue;
    if (first)
      this.notify({ kind: 'recheck', owner: first.request.owner, afterMs: recheckAfter(until - now) });
    if (++this.leftAlone > LEAST_SWEEP + this.leftBySweep) this.sweep(now);
  }

  forceRelease(key: string, now: number): 'released' | 'not held' {
    const entry = this.touch(key, now);
    const { holders } = entry;
    for (const { owner } of holders) this.notify({ kind: 'lost', owner });
    entry.holders = [];
    this.settle(key, entry, now);
    return holders.length > 0 ? 'released' : 'not held';
  }

  inspect(key: string, now: number): LockSnapshot | null {
    const entry = this.touch(key, now);
    this.settle(key, entry, now);
    const { holders, queue } = entry;
    const [first] = holders;
    if (!first && queue.length === 0) return null;
    return {
      key,
      mode: first && modeOf(first.claim),
      holders: holders.map(({ owner }) => owner),
      remainingMs: remaining(entry, now),
      pending: queue.map(({ request }) => request.owner),
      fencingToken: first && Math.max(...holders.map(({ token }) => token)),
    };
  }

  private touch(key: string, now: number): Entry {
    let entry = this.entries.get(key);
    if (!entry) this.entries.set(key, (entry = { holders: [], queue: [] }));
    else if (entry.holders.some(({ until }) => until <= now))
      entry.holders = entry.holders.filter(({ until }) => until > now);
    return entry;
  }

  private sweep(now: number): void {
    for (const key of this.entries.keys()) this.settle(key, this.touch(key, now), now);
    this.leftAlone = 0;
    this.leftBySweep = this.entries.size;
  }

  private settle(key: string, entry: Entry, now: number): void {
    this.grantNext(entry, now);
    if (entry.holders.length === 0 && entry.queue.length === 0) this.entries.delete(key);
  }

  private queuedOrBusy(entry: Entry, owner: string, now: number): AcquireReply {
    const { holders, queue } = entry;
    const holder = holders[0]?.owner;
    const remainingMs = remaining(entry, now);
    const mine = queue.find((ticket) => ticket.request.owner === owner);
    if (!mine) return { kind: 'busy', holder, remainingMs };
    for (const other of holders)
      this.notify({ kind: 'contended', owner: other.owner, waiting: queue.length });
    return {
      kind: 'queued',
      ticket: mine.ticket,
      holder,
      remainingMs,
      recheckAfterMs: recheckAfter(remainingMs),
    };
  }

  private joinQueue({ queue }: Entry, request: AcquireRequest, now: number): void {
    const until = now + Math.min(request.waitMs, SILENT_WAITER_MS);
    const mine = queue.find((ticket) => ticket.request.owner === request.owner);
    if (mine) {
      mine.until = until;
      mine.request = request;
      return;
    }
    const ticket = request.ticket > 0 ? request.ticket : ++this.lastTicket;
    const behind = queue.findIndex((other) => other.ticket > ticket);
    queue.splice(behind < 0 ? queue.length : behind, 0, { ticket, request, until });
  }

  /** Grants to the first waiters that may enter, and notifies each except `asker`, which gets a reply. */
  private grantNext(entry: Entry, now: number, asker?: string): void {
    for (let next = entry.queue[0]; next; next = entry.queue[0]) {
      const { request, until } = next;
      const isGone = until <= now || !this.clients.has(clientOf(request.owner));
      if (!isGone && !mayEnter(entry, request.claim)) return;
      entry.queue.shift();
      if (isGone) continue;
      const holder = this.grant(entry, request, now);
      if (request.owner === asker) continue;
      this.notify({ ...this.confirm(entry, holder, request.leaseMs, now), owner: request.owner });
    }
  }

  private grant(entry: Entry, { owner, claim, leaseMs, tokens }: AcquireRequest, now: number): Holder {
    const token = this.lastToken + 1;
    this.lastToken += tokens;
    const holder = { owner, claim, token, lastToken: this.lastToken, until: now + leaseMs };
    entry.holders.push(holder);
    return holder;
  }

  private reserve(holder: Holder, upTo: number): Holder {
    holder.lastToken = Math.max(holder.lastToken, upTo);
    this.lastToken = Math.max(this.lastToken, upTo);
    return holder;
  }

  private confirm({ queue }: Entry, holder: Holder, leaseMs: number, now: number): Grant {
    const { token, lastToken } = holder;
    const validUntil = leaseValidity(now, leaseMs);
    holder.until = now + leaseMs;
    return { kind: 'granted', token, lastToken, validUntil, waiting: queue.length, confirmed: true };
  }

  private notify(notification: Notification & { readonly owner: string }): void {
    this.clients.get(clientOf(notification.owner))?.(notification);
  }
}

function clientOf(owner: string): string {
  return owner.slice(0, owner.indexOf(':'));
}

function holderOf({ holders }: Entry, owner: string): Holder | undefined {
  return holders.find((holder) => holder.owner === owner);
}

/** The remaining time of the lease that ends first. */
function remaining({ holders }: Entry, now: number): number {
  return holders.length === 0 ? 0 : Math.min(...holders.map(({ until }) => until)) - now;
}

function mayEnter({ holders }: Entry, claim: Claim): boolean {
  if (isExclusive(claim)) return holders.length === 0;
  if (claim.kind === 'shared') return holders.every((holder) => holder.claim.kind === 'shared');
  const taken = holders.reduce((sum, holder) => sum + weightOf(holder.claim), 0);
  return taken + claim.weight <= claim.permits;
}

function weightOf(claim: Claim): number {
  return claim.kind === 'permits' ? claim.weight : 0;
}

/** Permits are counted, locks are not: a key is used in one of the two ways at a time. */
function checkKind({ holders, queue }: Entry, { key, claim }: AcquireRequest): void {
  const other = holders[0]?.claim ?? queue[0]?.request.claim;
  if (!other || (other.kind === 'permits') === (claim.kind === 'permits')) return;
  throw otherKind(key, claim);
}

function otherKind(key: string, { kind }: Claim): LockStoreError {
  const [asked, used] = kind === 'permits' ? ['permits', 'a lock'] : ['a lock', 'permits'];
  const message = `Could not acquire "${key}" as ${asked}: it is in use as ${used}. Give the two different keys.`;
  return new LockStoreError(message, key, 'refused');
}
