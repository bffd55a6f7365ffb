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

/** If more notes than this lie beside a document, the next client that applies a task to it writes them into it. */
const MAX_NOTES = 32;

/**
 * The state of one key, and every change to it. All rules about who holds and who is next are here, for every store that keeps a
 * document. A change is made at once, on this copy: it waits for nothing and reads no clock. The register then writes the
 * outcome, unless another client has written first.
 *
 * There is no timer. The first change after the end of a lease drops its holder and grants the lock to the next waiters.
 */
export class KeyState {
  private holders: Holder[];
  /** Waiters, in order of their tickets. */
  private queue: StoredWaiter[];
  private lastTokenNow: number;
  private readonly toNotify: string[] = [];
  /** An acquire has added its owner to the queue or to the holders. Merging notes and granting other waiters the lock do not count. */
  private hasAddedOwner = false;
  /** An owner that was released may have left a note that this reading does not have. */
  private mayMissNote = false;
  private isChangedNow: boolean;

  /** @param now the store's time in ms. An estimate must be too early rather than too late, so that no change drops a live holder */
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

  /** Whether a change was made that must be written for other clients to see. */
  get isChanged(): boolean {
    return this.isChangedNow;
  }

  /**
   * Other clients to notify of the write: their owners were granted the lock, lost it, are to be taken over, have a new waiter
   * behind them, or wait for a minimum hold to end.
   */
  get notified(): readonly string[] {
    return [...new Set(this.toNotify)].filter((client) => client !== this.client.clientId);
  }

  /**
   * Whether the write must fail if a note lies beside the document that this reading does not have. The write would let its own
   * owner overtake the owner of that note, leave the owner of that note waiting beside a free key, or leave behind the note of an
   * owner that is released. Handing the lock to the first waiter overtakes nobody, so that write need not fail.
   */
  get failOnUnreadNotes(): boolean {
    return (
      this.hasAddedOwner ||
      this.mayMissNote ||
      (this.queue.length === 0 && !this.holders.some(({ claim }) => isExclusive(claim)))
    );
  }

  /** @throws LockStoreError for permits of a key that is in use as a lock, and for a lock on a key that is in use as permits */
  acquire(request: AcquireRequest): AcquireOutcome {
    const { owner, leaseMs, waitMs, claim, tokens } = request;
    const mine = this.holderOf(owner);
    if (mine) return this.giveWholeLease(mine, leaseMs, Math.max(mine.lastToken, mine.token + tokens - 1));
    checkKind(request, this.usedAs);
    if (this.isOneTooMany(request)) return this.queuedOrBusy(request);
    // An owner that is in the queue already, for example because its note was merged, causes no write by this alone.
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
    // An exclusive holder that renews with a shared claim downgrades its lock. A shared holder that renews with an exclusive
    // claim sent that renewal before its downgrade, and stays shared.
    const isDowngraded = isExclusive(mine.claim) && claim.kind !== mine.claim.kind;
    const kept = isDowngraded ? { ...mine, claim } : mine;
    if (isDowngraded) {
      this.replace(mine, kept);
      this.isChangedNow = true;
    }
    this.grantNext();
    return this.giveWholeLease(kept, leaseMs);
  }

  /** @returns whether the owner held the lock */
  release(
    { owner, used }: Pick<ReleaseRequest, 'owner' | 'used'>,
    { holdMs = 0, mayHaveNote = false }: ReleaseOptions = {},
  ): boolean {
    if (mayHaveNote || this.reading.mayLackNotes) this.mayMissNote = true;
    const held = this.holderOf(owner);
    // The document may still name an owner whose lease has expired. Clients with an earlier clock reading treat it as the holder
    // until this write removes it. A note of this owner must go, too: if the key is in use as the other kind of lock, mergeNote
    // has left the note out, and another client would merge it as soon as the key is free.
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

  /** @param owners the ones that lose the lock, while other holders keep it; default: all holders */
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
   * Writes into the document that another owner takes the lock over from this holder, and notifies the holder's client. The
   * shortest grace counts: a longer one does not replace it. A takeover that is announced again carries only the grace that is
   * left, so that a client that reads it late does not begin the whole grace anew.
   *
   * @returns whether the owner holds, so that there is a client to notify
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

  /**
   * The state of the key without holders and waiters whose time has run out. Grants nothing: a waiter that could be granted the
   * lock gets it by its own recheck.
   */
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
   * Drops from the queue all waiters of a client that let a grant run out unconfirmed, because that client has crashed or is out
   * of reach.
   *
   * @returns these clients. The constructor leaves out their notes as well
   */
  private dropUnreached(before: readonly Holder[]): ReadonlySet<string> {
    const unreached = before.filter((holder) => holder.isUnconfirmed && !this.holders.includes(holder));
    const clients = new Set(unreached.map(({ owner }) => clientOf(owner)));
    if (clients.size > 0) this.queue = this.queue.filter(({ owner }) => !clients.has(clientOf(owner)));
    return clients;
  }

  /**
   * Adds the owner of a note to the queue, and grants nothing. Leaves out a note of an owner that holds, or held when it left the
   * note: the note and the grant crossed on their way. Leaves out a note for permits of a key in use as a lock, too, and the
   * reverse.
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
    // The ticket may equal the last one in the queue, because owners with equal tickets stay in order of arrival. With a larger
    // ticket, a note that is merged later could overtake this owner.
    const ticket = note.ticket || Math.max(this.reading.nextTicket, last);
    this.put(note, ticket, { inMs: note.waitMs });
    if (!isNew) return;
    this.hasAddedOwner = this.isChangedNow = true;
    this.notifyClientsOf(this.holders);
  }

  /** Puts a waiter into the queue in order of tickets. An owner that waits already keeps its ticket, and its entry is replaced. */
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

  /**
   * Grants the lock to waiters from the head of the queue, as many as may hold it together, and drops those that are gone. An
   * owner of this client gets its whole lease at once. One of another client gets an initial lease, which it must confirm.
   *
   * @param asker the owner that acquires, if an acquire calls this
   */
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

  /**
   * Restarts the whole lease of a holder with this write, when it renews or asks again. Writes nothing where no end of a lease is
   * stored and the entry already says the same.
   */
  private giveWholeLease(mine: Holder, leaseMs: number, lastToken = mine.lastToken): UntimedGrant {
    const { owner, claim, token, takeover } = mine;
    const isStored = mine.leaseMs === leaseMs && !mine.isUnconfirmed && lastToken === mine.lastToken;
    if (this.client.areRenewalsWritten || !isStored) {
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
   * Keeps the key for the rest of a minimum hold, under an owner id that nobody uses, so that no request renews or confirms it.
   * Notifies the client of the first waiter, which rechecks when the minimum hold is over.
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

  /** Whether the owner must not enter the queue, because `maxWaiting` or more other owners wait there. */
  private isOneTooMany({ owner, waitMs, claim, maxWaiting = Infinity }: AcquireRequest): boolean {
    if (waitMs <= 0 || maxWaiting === Infinity || this.queue.some((waiter) => waiter.owner === owner))
      return false;
    this.grantNext();
    const isFree = this.queue.length === 0 && mayEnter(claim, this.holders);
    return !isFree && this.countOthers(owner) >= maxWaiting;
  }

  /** How many other owners wait, without those whose clients are gone. These stay in the queue until their turn comes. */
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

  /** The claim that tells whether the key is in use as a lock or as permits: that of a holder, or else that of the first waiter. */
  private get usedAs(): Claim | undefined {
    return this.holders[0]?.claim ?? this.queue[0]?.claim;
  }
}

/** The client that makes the change, and what it knows. */
export interface ActingClient {
  readonly clientId: string;
  /** The largest fencing token that this client has seen. A new token is larger, even if the back end has lost its last writes. */
  readonly minToken: number;
  /** A secret of this client. It is in the notes of its waiters, and each grant to one of them must repeat it. */
  readonly nonce: string;
  /**
   * The longest lease, in ms, of a grant that this client writes for an owner of another client. That owner must learn of the
   * grant and confirm it within this time.
   */
  readonly initialLeaseMs: number;
  /**
   * Whether a renewal writes the new end of the lease. False where documents hold no ends of leases: a renewal then only reads
   * whether its owner still holds.
   */
  readonly areRenewalsWritten: boolean;
  isGone?(clientId: string): boolean;
}

/** A grant without `validUntil`, which depends on when the write was sent. */
type UntimedGrant = Omit<Grant, 'validUntil'>;
export type AcquireOutcome = UntimedGrant | Exclude<AcquireReply, Grant>;

interface ReleaseOptions {
  /** How much of a minimum hold is left, in ms. */
  readonly holdMs?: number;
  /** An acquire of this owner was never answered, so its note may lie beside the document without being in the reading. */
  readonly mayHaveNote?: boolean;
}
