import { randomUUID } from 'node:crypto';
import { Subject } from 'rxjs';
import {
  LockStoreError,
  type AcquireReply,
  type AcquireRequest,
  type LockSnapshot,
  type LockStore,
  type LockStoreContext,
  type LockStoreFactory,
  type Notification,
  type ReleaseRequest,
  type Renewal,
  type RenewalReply,
} from 'nestjs-distributed-lock';

type Claim = AcquireRequest['claim'];
type Holder = { owner: string; claim: Claim; until: number; token: number; lastToken: number };
type Waiter = AcquireRequest & { silentAt: number };

const RECHECK_MS = 1000;
/** A holder stops believing in its lease a little before the server ends it, as two clocks differ. */
const validity = (sentAt: number, leaseMs: number): number => sentAt + 0.95 * leaseMs;
const isAlone = ({ kind }: Claim): boolean => kind === 'lock' || kind === 'exclusive';

/** The "server": one entry for each key, and the clients that are connected. */
class Server {
  readonly entries = new Map<string, Entry>();
  readonly clients = new Map<string, Subject<Notification>>();
  lastTicket = 0;

  tell(notification: Notification & { owner: string }): void {
    const client = this.clients.get(notification.owner.split(':')[0] as string);
    queueMicrotask(() => client?.next(notification));
  }
}

class Entry {
  holders: Holder[] = [];
  queue: Waiter[] = [];
  lastToken = 0;

  constructor(private readonly server: Server) {}

  /** Lets go who is over or gone, and grants the lock from the front of the queue. */
  settle(now: number, asker?: string): void {
    this.holders = this.holders.filter(({ until }) => until > now);
    this.queue = this.queue.filter(
      ({ owner, silentAt }) => silentAt > now && this.server.clients.has(owner.split(':')[0] as string),
    );
    for (let next = this.queue[0]; next && this.mayEnter(next.claim); next = this.queue[0]) {
      this.queue.shift();
      const holder = this.enter(next, now);
      if (next.owner !== asker)
        this.server.tell({ owner: next.owner, ...this.grant(holder, validity(now, next.leaseMs)) });
    }
  }

  mayEnter(claim: Claim): boolean {
    if (this.holders.length === 0 || claim.kind !== 'permits')
      return this.holders.every((it) => claim.kind === 'shared' && it.claim.kind === 'shared');
    const taken = this.holders.map((it) => (it.claim.kind === 'permits' ? it.claim.weight : Infinity));
    return taken.reduce((sum, weight) => sum + weight, claim.weight) <= claim.permits;
  }

  enter({ owner, claim, leaseMs, tokens }: AcquireRequest, now: number): Holder {
    const token = this.lastToken + 1;
    this.lastToken += tokens;
    const holder = { owner, claim, until: now + leaseMs, token, lastToken: this.lastToken };
    this.holders.push(holder);
    return holder;
  }

  grant({ token, lastToken }: Holder, validUntil: number) {
    const waiting = this.queue.length;
    return { kind: 'granted', token, lastToken, validUntil, waiting, confirmed: true } as const;
  }

  acquire(request: AcquireRequest, now: number, sentAt: number): AcquireReply {
    const { owner, claim, leaseMs, mayWait, maxWaiting } = request;
    let mine = this.holders.find((it) => it.owner === owner);
    if (!mine) {
      const used = this.holders[0] ?? this.queue.find((it) => it.owner !== owner);
      if (used && (used.claim.kind === 'permits') !== (claim.kind === 'permits'))
        throw new LockStoreError('The key is in use as another kind of lock.', request.key, 'refused');
      const place = this.queue.find((it) => it.owner === owner);
      // A free key is not waited for, so `maxWaiting: 0` may take it.
      const isFree = this.holders.length + this.queue.length === 0;
      if (mayWait && (place || isFree || this.queue.length < (maxWaiting ?? Infinity))) {
        const ticket = place?.ticket ?? (request.ticket || ++this.server.lastTicket);
        const silentAt = now + 3 * RECHECK_MS;
        this.queue = this.queue.filter((it) => it !== place).concat({ ...request, ticket, silentAt });
        this.queue.sort((a, b) => a.ticket - b.ticket);
      }
      this.settle(now, owner);
      const mayTake = !mayWait && this.queue.length === 0 && this.mayEnter(claim);
      mine = mayTake ? this.enter(request, now) : this.holders.find((it) => it.owner === owner);
    }
    if (mine) {
      mine.until = now + leaseMs;
      mine.lastToken = Math.max(mine.lastToken, mine.token + request.tokens - 1);
      this.lastToken = Math.max(this.lastToken, mine.lastToken);
      return this.grant(mine, validity(sentAt, leaseMs));
    }
    const place = this.queue.find((it) => it.owner === owner);
    const waiting = this.queue.length - (place ? 1 : 0);
    const remainingMs = this.remainingMs(now);
    const holder = this.holders[0]?.owner;
    const busy = { holder, remainingMs, ...(maxWaiting !== undefined && { waiting }) };
    if (!place) return { kind: 'busy', ...busy };
    for (const it of this.holders)
      this.server.tell({ kind: 'contended', owner: it.owner, waiting: this.queue.length });
    const recheckAfterMs = Math.min(this.holders.length > 0 ? remainingMs + 5 : RECHECK_MS, RECHECK_MS);
    return { kind: 'queued', ticket: place.ticket, recheckAfterMs, ...busy };
  }

  renew({ owner, claim, leaseMs, token }: Renewal, now: number, sentAt: number): RenewalReply {
    const mine = this.holders.find((it) => it.owner === owner && it.token === token);
    if (!mine) return { kind: 'lost' };
    mine.until = now + leaseMs;
    if (isAlone(mine.claim) && claim.kind === 'shared') mine.claim = claim;
    this.settle(now);
    return { kind: 'renewed', validUntil: validity(sentAt, leaseMs), waiting: this.queue.length };
  }

  release({ owner, used, holdUntil = 0 }: ReleaseRequest, now: number): 'released' | 'not held' {
    const mine = this.holders.find((it) => it.owner === owner);
    this.holders = this.holders.filter((it) => it !== mine);
    this.queue = this.queue.filter((it) => it.owner !== owner);
    if (mine && used?.lastToken === this.lastToken) this.lastToken = used.token;
    if (mine && holdUntil > now)
      this.holders.push({ ...mine, owner: owner.replace(':', ':-'), until: holdUntil });
    this.settle(now);
    return mine ? 'released' : 'not held';
  }

  remainingMs(now: number): number {
    return this.holders.length === 0 ? 0 : Math.min(...this.holders.map(({ until }) => until)) - now;
  }

  snapshot(key: string, now: number): LockSnapshot | null {
    const [first] = this.holders;
    const pending = this.queue.map(({ owner }) => owner);
    if (!first && pending.length === 0) return null;
    const mode =
      first && isAlone(first.claim) ? 'exclusive' : (first?.claim.kind as 'shared' | 'permits' | undefined);
    const remainingMs = this.remainingMs(now);
    const holders = this.holders.map(({ owner }) => owner);
    return { key, mode, holders, remainingMs, pending, fencingToken: this.lastToken || undefined };
  }
}

export function mapStore(): LockStoreFactory {
  const server = new Server();
  return { create: (context) => openClient(server, context) };
}

function openClient(server: Server, { clock, keyPrefix }: LockStoreContext): LockStore {
  const clientId = randomUUID();
  const notifications$ = new Subject<Notification>();
  server.clients.set(clientId, notifications$);

  /** One request: a way to the server, one step there that nothing interrupts, and the way back. */
  async function ask<T>(key: string, step: (entry: Entry, now: number) => T): Promise<T> {
    await new Promise((resolve) => setImmediate(resolve));
    if (!server.clients.has(clientId)) throw new LockStoreError('The store is closed.', key, 'unknown');
    const entry = server.entries.get(keyPrefix + key) ?? new Entry(server);
    server.entries.set(keyPrefix + key, entry);
    entry.settle(clock.now());
    return step(entry, clock.now());
  }

  return {
    name: 'map',
    clientId,
    commandTimeoutMs: 1000,
    notifications$,
    acquire(request) {
      const sentAt = clock.now();
      return ask(request.key, (entry, now) => entry.acquire(request, now, sentAt));
    },
    renew(renewals) {
      const sentAt = clock.now();
      const renewOne = (renewal: Renewal) =>
        ask(renewal.key, (entry, now) => entry.renew(renewal, now, sentAt)).catch(
          (error: LockStoreError): RenewalReply => ({ kind: 'unknown', error }),
        );
      return Promise.all(renewals.map(renewOne));
    },
    release: (request) => ask(request.key, (entry, now) => entry.release(request, now)),
    inspect: (key) => ask(key, (entry, now) => entry.snapshot(key, now)),
    async close() {
      server.clients.delete(clientId);
      notifications$.complete();
    },
  };
}
