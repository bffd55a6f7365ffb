import { maxOf, minOf } from '../common/collections.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type Claim,
  type ForceReply,
  type Grant,
  isExclusive,
  isPlaceholder,
  type LockSnapshot,
  modeOf,
  placeholderOf,
  type ReleaseRequest,
  type Renewal,
  type TakeoverNotice,
} from '../port/lock-store.js';
import { recheckAfter } from '../port/timing.js';
import {
  checkKind,
  clientOf,
  type Holder,
  isOtherKind,
  isOver,
  type LockDocument,
  mayEnter,
  type Moment,
  type Note,
  noteOf,
  type Reading,
  remainingOf,
  type StoredNote,
  type StoredWaiter,
} from './document.js';

/** With more notes than this beside a document, the next reader writes them into it. */
const MAX_NOTES = 32;

/**
 * The state of one key and each change of it: all rules about who holds and who is next, for every store that keeps a
 * document. A change waits for nothing and reads no clock. The register writes the outcome, unless another client was first.
 *
 * It has no timer. The first change after the end of a lease drops the holder and grants the lock to the next waiters.
 */
export class KeyState {
  private holders: Holder[];
  /** In order of ticket. */
  private queue: StoredWaiter[];
  private lastTokenNow: number;
  private readonly toNotify: string[] = [];
  /** An acquire has added its owner to the queue or the holders. Merged notes and hand-offs to other waiters do not count. */
  private hasAddedOwner = false;
  /** The note of an owner that is released may be unread. */
  private mayMissNote = false;
  private isChangedNow: boolean;

  /** @param now the store's time in ms, at the earliest, so that no change drops a live holder */
  constructor(
    private readonly reading: Reading,
    private readonly now: number,
    private readonly client: ActingClient,
  ) {
    const { document, notes, lastToken } = reading;
    this.holders = document.holders.filter(({ until }) => !isOver(until, now));
    this.queue = [...document.queue];
    this.lastTokenNow = lastToken;
    this.isChangedNow = notes.length > MAX_NOTES;
    const unreached = this.dropUnreached(document.holders);
    for (const note of notes) if (!unreached.has(clientOf(note.owner))) this.mergeNote(note);
  }

  get document(): LockDocument {
    return { holders: this.holders, queue: this.queue };
  }

  get lastToken(): number {
    return this.lastTokenNow;
  }

  /** A change was made that other clients must see. */
  get isChanged(): boolean {
    return this.isChangedNow;
  }

  /** Other clients to notify: of a grant, a loss, a takeover, a minimum hold, or of waiters. */
  get notified(): readonly string[] {
    return [...new Set(this.toNotify)].filter((client) => client !== this.client.clientId);
  }

  /**
   * The write must fail if there are notes that the reading did not have: it would overtake their owners, leave them
   * waiting beside a free key, or leave the note of an owner that is released. A hand-off to the first waiter overtakes no
   * owner.
   */
  get failOnUnreadNotes(): boolean {
    return (
      this.hasAddedOwner ||
      this.mayMissNote ||
      (this.queue.length === 0 && !this.holders.some(({ claim }) => isExclusive(claim)))
    );
  }

  /** @throws LockStoreError when the key is in use as the other kind of lock */
  acquire(request: AcquireRequest): AcquireOutcome {
    const { owner, leaseMs, waitMs, claim, tokens } = request;
    const mine = this.holderOf(owner);
    if (mine) return this.giveWholeLease(mine, leaseMs, Math.max(mine.lastToken, mine.token + tokens - 1));
    checkKind(request, this.usedAs);
    if (this.isOneTooMany(request)) return this.queuedOrBusy(request);
    // For an owner that is in the queue already, for example by its note, this alone needs no write.
    if (waitMs > 0) this.join(noteOf(request, this.client));
    this.grantNext(owner);
    if (waitMs <= 0 && this.queue.length === 0 && mayEnter(claim, this.holders)) this.enter(request);
    const held = this.holderOf(owner);
    if (held) return this.giveWholeLease(held, leaseMs);
    return this.queuedOrBusy(request);
  }

  renew({ owner, claim, token, leaseMs }: Renewal): UntimedGrant | 'lost' {
    const mine = this.holderOf(owner);
    if (mine?.token !== token) return 'lost';
    // A renewal that was sent before its owner downgraded does not undo that.
    const isDowngraded = isExclusive(mine.claim) && claim.kind !== mine.claim.kind;
    const kept = isDowngraded ? { ...mine, claim } : mine;
    if (isDowngraded) {
      this.replace(mine, kept);
      this.isChangedNow = true;
    }
    this.grantNext();
    return this.giveWholeLease(kept, leaseMs);
  }

  /** @returns whether the owner held */
  release(
    { owner, used }: Pick<ReleaseRequest, 'owner' | 'used'>,
    { holdMs = 0, mayHaveNote = false }: ReleaseOptions = {},
  ): boolean {
    if (mayHaveNote || this.reading.mayLackNotes) this.mayMissNote = true;
    const held = this.holderOf(owner);
    // The document may still name an owner whose lease has expired. Clients with an older clock reading treat it as the holder
    // until this write removes it. And an owner that was refused, because the key is in use as the other kind of lock, has left a
    // note that mergeNote leaves out: the write deletes it, so that nobody merges it when the key is free.
    const { document, notes } = this.reading;
    const written = [...document.holders, ...notes, ...this.holders, ...this.queue];
    if (written.some((entry) => entry.owner === owner)) this.isChangedNow = true;
    this.queue = this.queue.filter((waiter) => waiter.owner !== owner);
    this.holders = this.holders.filter((holder) => holder !== held);
    if (held && holdMs > 0) this.leavePlaceholder(held, holdMs);
    if (held && used?.lastToken === this.lastTokenNow) this.lastTokenNow = used.token;
    this.grantNext();
    return held !== undefined;
  }

  /** @param owners the only ones that lose the lock; default: all holders */
  forceRelease(owners: readonly string[] = this.holders.map(({ owner }) => owner)): ForceReply {
    const named = new Set(owners);
    const losing = this.holders.filter(({ owner }) => named.has(owner));
    const others = this.holders.filter(({ owner }) => !named.has(owner));
    this.notifyClientsOf(losing);
    this.holders = others;
    if (losing.length > 0) this.isChangedNow = true;
    this.grantNext();
    if (losing.length > 0) return 'released';
    return others.length > 0 ? 'held by another' : 'not held';
  }

  /**
   * Of several takeovers the shortest grace counts, and so does what is left of one that is announced again, for a client that
   * reads it late.
   *
   * @returns whether the owner holds, so that its client is told
   */
  announceTakeover({ owner, graceMs, by }: TakeoverNotice): boolean {
    const held = this.holderOf(owner);
    if (!held || isPlaceholder(owner)) return false;
    if (held.takeover && held.takeover.graceMs <= graceMs) return true;
    this.replace(held, { ...held, takeover: { graceMs, by } });
    this.isChangedNow = true;
    this.notifyClientsOf([held]);
    return true;
  }

  /** Leaves out holders and waiters whose time is over. Grants nothing: a waiter that may enter is granted by its own recheck. */
  snapshot(key: string): LockSnapshot | null {
    const [first] = this.holders;
    const waiting = this.queue.filter((waiter) => !this.isGone(waiter));
    if (!first && waiting.length === 0) return null;
    return {
      key,
      mode: first && modeOf(first.claim),
      holders: this.holders.map(({ owner }) => owner),
      remainingMs: this.remainingMs(),
      pending: waiting.map(({ owner }) => owner),
      fencingToken: first && maxOf(this.holders.map(({ token }) => token)),
    };
  }

  /**
   * The owner of a grant that was not confirmed in time has crashed or is out of reach. So all waiters of its client are dropped
   * from the queue, and the constructor merges no notes of this client.
   *
   * @returns these clients
   */
  private dropUnreached(before: readonly Holder[]): ReadonlySet<string> {
    const unreached = before.filter((holder) => holder.isUnconfirmed && !this.holders.includes(holder));
    const clients = new Set(unreached.map(({ owner }) => clientOf(owner)));
    if (clients.size > 0) this.queue = this.queue.filter(({ owner }) => !clients.has(clientOf(owner)));
    return clients;
  }

  /**
   * Adds the owner of a note to the queue and grants nothing. A note is left out if its owner holds, or held when it left
   * the note, because the note and the grant crossed on their way.
   */
  private mergeNote(note: StoredNote): void {
    const at = note.at / 1000;
    const hasCrossed = this.reading.document.holders.some(
      ({ owner, until }) => owner === note.owner && !isOver(until, at),
    );
    if (hasCrossed || isOtherKind(note.claim, this.usedAs)) return;
    this.put(note, note.ticket || note.at, at + note.waitMs);
  }

  private join(note: Note): void {
    const isNew = !this.queue.some((waiter) => waiter.owner === note.owner);
    const last = this.queue.at(-1)?.ticket ?? 0;
    // The ticket may equal the last one, because owners with equal tickets stay in order of arrival. With a larger ticket a later
    // note could overtake this owner.
    const ticket = note.ticket || Math.max(this.reading.nextTicket, last);
    this.put(note, ticket, { inMs: note.waitMs });
    if (!isNew) return;
    this.hasAddedOwner = this.isChangedNow = true;
    this.notifyClientsOf(this.holders);
  }

  /** In order of ticket. An owner that waits already keeps its ticket. */
  private put(note: Omit<StoredWaiter, 'ticket' | 'until'>, newTicket: number, until: Moment): void {
    const { owner, claim, leaseMs, tokens, minToken, nonce, session } = note;
    const i = this.queue.findIndex((other) => other.owner === owner);
    const ticket = this.queue[i]?.ticket ?? newTicket;
    const waiter = { owner, claim, leaseMs, tokens, minToken, ticket, nonce, until };
    if (session !== undefined) Object.assign(waiter, { session });
    if (i >= 0) {
      this.queue[i] = waiter;
      return;
    }
    const behind = this.queue.findIndex((other) => other.ticket > ticket);
    this.queue.splice(behind < 0 ? this.queue.length : behind, 0, waiter);
  }

  /** Grants to the first waiters that may enter. Owners of this client get their whole lease at once. */
  private grantNext(asker?: string): void {
    for (let next = this.queue[0]; next; next = this.queue[0]) {
      const { owner, claim, leaseMs, nonce, session } = next;
      const client = clientOf(owner);
      const isGone = this.isGone(next);
      if (!isGone && !mayEnter(claim, this.holders)) return;
      this.queue.shift();
      if (isGone) continue;
      const isOwn = client === this.client.clientId;
      const inMs = isOwn ? leaseMs : Math.min(leaseMs, this.client.initialLeaseMs);
      this.add(next, {
        until: { inMs },
        nonce,
        ...(inMs < leaseMs && { isUnconfirmed: true }),
        ...(session !== undefined && !isOwn && { session }),
      });
      if (owner === asker) this.hasAddedOwner = true;
      this.toNotify.push(client);
    }
  }

  private enter(request: AcquireRequest): void {
    const { leaseMs } = request;
    this.add({ ...request, minToken: this.client.minToken }, { until: { inMs: leaseMs } });
    this.hasAddedOwner = true;
  }

  private add(
    { owner, claim, tokens, minToken }: Pick<StoredWaiter, 'owner' | 'claim' | 'tokens' | 'minToken'>,
    lease: Pick<Holder, 'until' | 'nonce' | 'isUnconfirmed' | 'session'>,
  ): void {
    const token = Math.max(this.lastTokenNow, this.reading.ticks, minToken, this.client.minToken) + 1;
    this.lastTokenNow = token + tokens - 1;
    this.holders.push({ owner, claim, token, lastToken: this.lastTokenNow, ...lease });
    this.isChangedNow = true;
  }

  /** Starts the whole lease from this write on, for a renewal and for the grant to an owner that asks. */
  private giveWholeLease(mine: Holder, leaseMs: number, lastToken = mine.lastToken): UntimedGrant {
    const { owner, claim, token, takeover } = mine;
    const mailboxExists = mine.leaseMs === leaseMs && !mine.isUnconfirmed && lastToken === mine.lastToken;
    if (this.client.areRenewalsWritten || !mailboxExists) {
      const until = { inMs: leaseMs };
      this.replace(mine, { owner, claim, token, lastToken, until, ...(takeover && { takeover }) });
      this.lastTokenNow = Math.max(this.lastTokenNow, lastToken);
      this.isChangedNow = true;
    }
    return { kind: 'granted', token, lastToken, waiting: this.queue.length, confirmed: true };
  }

  private replace(holder: Holder, next: Holder): void {
    this.holders = this.holders.map((each) => (each === holder ? next : each));
  }

  /**
   * Keeps the key for the rest of a minimum hold, in which nobody confirms anything. The first waiter rechecks when the minimum
   * hold is over.
   */
  private leavePlaceholder(held: Holder, holdMs: number): void {
    const { claim, token, lastToken, leaseMs, session } = held;
    this.holders.push({
      owner: placeholderOf(held.owner),
      claim,
      token,
      lastToken,
      until: { inMs: holdMs },
      ...(leaseMs !== undefined && { leaseMs }),
      ...(session !== undefined && { session }),
    });
    this.notifyClientsOf(this.queue.slice(0, 1));
  }

  /** The owner must not enter the queue, because `maxWaiting` others or more wait there. */
  private isOneTooMany({ owner, waitMs, claim, maxWaiting = Infinity }: AcquireRequest): boolean {
    if (waitMs <= 0 || maxWaiting === Infinity || this.queue.some((waiter) => waiter.owner === owner))
      return false;
    this.grantNext();
    const isFree = this.queue.length === 0 && mayEnter(claim, this.holders);
    return !isFree && this.countOthers(owner) >= maxWaiting;
  }

  /** Counts the other waiters that are alive. A waiter whose client is gone leaves the queue when its turn comes. */
  private countOthers(asker: string): number {
    return this.queue.filter((waiter) => waiter.owner !== asker && !this.isGone(waiter)).length;
  }

  private isGone({ owner, until }: StoredWaiter): boolean {
    return isOver(until, this.now) || this.client.isGone?.(clientOf(owner)) === true;
  }

  private queuedOrBusy({ owner, waitMs, maxWaiting }: AcquireRequest): AcquireOutcome {
    const counted = waitMs > 0 && maxWaiting !== undefined && { waiting: this.countOthers(owner) };
    const holder = this.holders[0]?.owner;
    const remainingMs = this.remainingMs();
    const mine = this.queue.find((waiter) => waiter.owner === owner);
    if (!mine) return { kind: 'busy', holder, remainingMs, ...counted };
    return {
      kind: 'queued',
      ticket: mine.ticket,
      holder,
      remainingMs,
      recheckAfterMs: recheckAfter(remainingMs),
      ...counted,
    };
  }

  private notifyClientsOf(owners: readonly { readonly owner: string }[]): void {
    for (const { owner } of owners) this.toNotify.push(clientOf(owner));
  }

  private holderOf(owner: string): Holder | undefined {
    return this.holders.find((holder) => holder.owner === owner);
  }

  /** The remaining time of the lease that ends first. */
  private remainingMs(): number {
    if (this.holders.length === 0) return 0;
    return minOf(this.holders.map((holder) => remainingOf(holder, this.now)));
  }

  /** The claim that decides whether the key is in use as a lock or as permits. */
  private get usedAs(): Claim | undefined {
    return this.holders[0]?.claim ?? this.queue[0]?.claim;
  }
}

/** The client that makes the changes, and what it knows. */
export interface ActingClient {
  readonly clientId: string;
  /** The largest fencing token that it has seen. A back end that lost its last writes must not give it out again. */
  readonly minToken: number;
  /** A secret of the client, which each note of its waiters carries, and each grant to them repeats. */
  readonly nonce: string;
  /** The longest lease, in ms, of a grant to an owner of another client, which must be notified of it. */
  readonly initialLeaseMs: number;
  /** True if a renewal writes the new end of the lease; false if it only reads that its owner holds, as no end is written. */
  readonly areRenewalsWritten: boolean;
  isGone?(clientId: string): boolean;
}

/** A grant without the end of its validity, which depends on when the write was sent. */
type UntimedGrant = Omit<Grant, 'validUntil'>;
export type AcquireOutcome = UntimedGrant | Exclude<AcquireReply, Grant>;

interface ReleaseOptions {
  /** How much of a minimum hold is left. */
  readonly holdMs?: number;
  /** An acquire of the owner was not answered, so its note may lie beside the document unread. */
  readonly mayHaveNote?: boolean;
}
