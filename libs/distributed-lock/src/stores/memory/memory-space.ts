import type {
  AcquireReply,
  Ask,
  End,
  EndReply,
  Grant,
  LockSnapshot,
  Push,
  Renewal,
  RenewalReply,
} from '../../lock/lock-store.js';
import { GONE_MS, lookAfter } from '../../lock/look.js';
import { leaseValidity } from '../../lock/validity.js';

interface Holder {
  readonly owner: string;
  readonly token: number;
  readonly lastToken: number;
  until: number;
}

interface Place {
  readonly place: number;
  ask: Ask;
  /** Past it the entry is dropped: its caller has stopped waiting, or looking. */
  until: number;
}

interface Entry {
  holder: Holder | undefined;
  /** In order of place. */
  readonly line: Place[];
}

type Deliver = (push: Push) => void;

/**
 * The state that all clients of one memory store share, and the same steps as the scripts of the Redis store.
 *
 * Expiry is looked up, not timed: whoever touches a key first finds a holder whose lease is over gone, and serves the
 * line behind it. Waiters look when the holder's lease ends.
 */
export class MemorySpace {
  private readonly entries = new Map<string, Entry>();
  private readonly clients = new Map<string, Deliver>();
  private lastPlace = 0;
  /** One for all keys: it outlives them, so that nothing is kept for a key that nobody uses. */
  private lastToken: number;

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

  acquire(ask: Ask, now: number): AcquireReply {
    const entry = this.touch(ask.key, now);
    if (entry.holder?.owner === ask.owner) return this.confirm(entry, entry.holder, ask.leaseMs, now);
    if (ask.waitMs > 0) this.standInLine(entry, ask, now);
    if (!entry.holder) this.grantNext(entry, now, ask.owner);
    if (!entry.holder) this.grant(entry, ask, now);
    const { holder, line } = entry;
    if (holder?.owner === ask.owner) return this.confirm(entry, holder, ask.leaseMs, now);
    const remainingMs = holder ? holder.until - now : 0;
    const mine = line.find((place) => place.ask.owner === ask.owner);
    if (!mine) return { kind: 'busy', holder: holder?.owner, remainingMs };
    if (holder) this.tell({ kind: 'wanted', owner: holder.owner, waiting: line.length });
    const { place } = mine;
    return { kind: 'queued', place, holder: holder?.owner, remainingMs, lookAfterMs: lookAfter(remainingMs) };
  }

  renew({ key, owner, token, leaseMs }: Renewal, now: number): RenewalReply {
    const entry = this.touch(key, now);
    if (entry.holder?.owner !== owner || entry.holder.token !== token) {
      this.settle(key, entry, now);
      return { kind: 'lost' };
    }
    const { validUntil, waiting } = this.confirm(entry, entry.holder, leaseMs, now);
    return { kind: 'renewed', validUntil, waiting };
  }

  end({ key, owner, used }: End, now: number): EndReply {
    const entry = this.touch(key, now);
    const place = entry.line.findIndex(({ ask }) => ask.owner === owner);
    if (place >= 0) entry.line.splice(place, 1);
    const held = entry.holder?.owner === owner;
    if (held) {
      entry.holder = undefined;
      if (used?.lastToken === this.lastToken) this.lastToken = used.token;
    }
    this.settle(key, entry, now);
    return held ? 'released' : 'not held';
  }

  forceRelease(key: string, now: number): 'released' | 'not held' {
    const entry = this.touch(key, now);
    const { holder } = entry;
    if (holder) this.tell({ kind: 'lost', owner: holder.owner });
    entry.holder = undefined;
    this.settle(key, entry, now);
    return holder ? 'released' : 'not held';
  }

  inspect(key: string, now: number): LockSnapshot | null {
    const entry = this.touch(key, now);
    this.settle(key, entry, now);
    const { holder, line } = entry;
    if (!holder && line.length === 0) return null;
    const pending = line.map(({ ask }) => ask.owner);
    const remainingMs = holder ? holder.until - now : 0;
    return { key, holder: holder?.owner, remainingMs, pending, fencingToken: holder?.token };
  }

  private touch(key: string, now: number): Entry {
    let entry = this.entries.get(key);
    if (!entry) this.entries.set(key, (entry = { holder: undefined, line: [] }));
    if (entry.holder && entry.holder.until <= now) entry.holder = undefined;
    return entry;
  }

  private settle(key: string, entry: Entry, now: number): void {
    if (!entry.holder) this.grantNext(entry, now);
    if (!entry.holder && entry.line.length === 0) this.entries.delete(key);
  }

  private standInLine({ line }: Entry, ask: Ask, now: number): void {
    const until = now + Math.min(ask.waitMs, GONE_MS);
    const mine = line.find((place) => place.ask.owner === ask.owner);
    if (mine) {
      mine.until = until;
      mine.ask = ask;
      return;
    }
    const place = ask.place > 0 ? ask.place : ++this.lastPlace;
    const behind = line.findIndex((other) => other.place > place);
    line.splice(behind < 0 ? line.length : behind, 0, { place, ask, until });
  }

  /** Grants to the first that still waits, and tells it unless it is the asker, who gets a reply. */
  private grantNext(entry: Entry, now: number, asker?: string): void {
    for (let next = entry.line.shift(); next; next = entry.line.shift()) {
      const { owner, leaseMs } = next.ask;
      if (next.until <= now || !this.clients.has(clientOf(owner))) continue;
      const holder = this.grant(entry, next.ask, now);
      if (owner !== asker) this.tell({ ...this.confirm(entry, holder, leaseMs, now), owner });
      return;
    }
  }

  private grant(entry: Entry, { owner, leaseMs, tokens }: Ask, now: number): Holder {
    const token = this.lastToken + 1;
    this.lastToken += tokens;
    return (entry.holder = { owner, token, lastToken: this.lastToken, until: now + leaseMs });
  }

  private confirm({ line }: Entry, holder: Holder, leaseMs: number, now: number): Grant {
    const { token, lastToken } = holder;
    const validUntil = leaseValidity(now, leaseMs);
    holder.until = now + leaseMs;
    return { kind: 'granted', token, lastToken, validUntil, waiting: line.length, confirmed: true };
  }

  private tell(push: Push & { readonly owner: string }): void {
    this.clients.get(clientOf(push.owner))?.(push);
  }
}

function clientOf(owner: string): string {
  return owner.slice(0, owner.indexOf(':'));
}
