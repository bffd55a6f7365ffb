import { maxOf, minOf } from '../common/collections.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type AttachRequest,
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
import { LockStoreError } from '../port/lock.errors.js';
import { recheckAfter } from '../port/timing.js';
import {
  clientOf,
  type Holder,
  isOver,
  type LockDocument,
  type Moment,
  type Note,
  noteOf,
  type Reading,
  remainingOf,
  type StoredNote,
  type StoredWaiter,
} from './document.js';

/** If a client reads more notes than this beside a document, it writes the merged queue even if its tasks change nothing. */
const MAX_NOTES = 32;
/** Where sessions keep leases, a waiter rechecks no sooner than this, in ms: see `recheckAfterMs`. */
const MIN_SESSION_RECHECK_MS = 500;

/**
 * A copy of the state of one key, and all changes that requests make to it: the rules about who holds the lock and who is next. A
 * change is synchronous and reads no clock. Afterwards the register writes the changed copy, unless another client has written the
 * document first.
 *
 * No timer ends a lease. The first change after its end drops the holder, and grants the lock to the next waiters.
 */
export class KeyState {
  private holders: Holder[];
  private queue: StoredWaiter[];
  private lastTokenNow: number;
  private readonly toNotify: string[] = [];
  /** An acquire has made its owner a waiter or a holder. Stays `false` if the change only merged notes or granted others the lock. */
  private hasAddedOwner = false;
  /** The released owner may have stored a note that this reading does not contain. */
  private mayMissNote = false;
  private isChangedNow: boolean;

  /** @param now the store's time in ms. Must not be later than the true one, or a change would drop a holder whose lease still runs */
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

  /** Whether the register must write this state, because it differs from the document that was read. */
  get isChanged(): boolean {
    return this.isChangedNow;
  }

  /** Ids of the other clients to notify of the write, because it concerns one of their owners. */
  get notified(): readonly string[] {
    return [...new Set(this.toNotify)].filter((client) => client !== this.client.clientId);
  }

  /**
   * Whether the write must fail if a note was stored beside the document since this reading, in any of these cases:
   *
   * - The write lets its own owner in. That owner would overtake the one that stored the note.
   * - The write leaves an empty queue and no exclusive holder. The owner of the note would wait although it could enter.
   * - The write releases an owner that may have stored the note itself. The next client would put that owner into the queue again.
   */
  get failOnUnreadNotes(): boolean {
    return (
      this.hasAddedOwner ||
      this.mayMissNote ||
      (this.queue.length === 0 && !this.holders.some(({ claim }) => isExclusive(claim)))
    );
  }

  /** @throws LockStoreError if the request asks for permits of a key that is in use as a lock, or the reverse */
  acquire(request: AcquireRequest): AcquireOutcome {
    const { owner, leaseMs, mayWait, claim, tokens } = request;
    const mine = this.holderOf(owner);
    if (mine) return this.giveWholeLease(mine, leaseMs, Math.max(mine.lastToken, mine.token + tokens - 1));
    checkKind(request, this.usedAs);
    if (this.isOneTooMany(request)) {
      // Write without the owner's note, which another client would merge after others have left.
      if (this.reading.notes.some((note) => note.owner === owner)) this.isChangedNow = true;
      return this.queuedOrBusy(request);
    }
    // If the owner is in the queue already, for example because its note was merged, this changes nothing that must be written.
    if (mayWait) this.join(noteOf(request, this.client));
    this.grantNext(owner);
    if (!mayWait && this.queue.length === 0 && mayEnter(claim, this.holders)) this.enter(request);
    const holder = this.holderOf(owner);
    if (holder) return this.giveWholeLease(holder, leaseMs);
    return this.queuedOrBusy(request);
  }

  /** Makes the owner the holder in place of a detached owner. */
  attach(request: AttachRequest): AcquireOutcome {
    const { owner, from, token, claim, leaseMs } = request;
    const mine = this.holderOf(owner);
    if (mine) return this.giveWholeLease(mine, leaseMs);
    const detached = this.holderOf(from);
    const isGood =
      detached?.claim.kind === claim.kind && detached.token <= token && token <= detached.lastToken;
    if (!detached || !isGood) return this.queuedOrBusy(request);
    const holder = { owner, claim: detached.claim, token, lastToken: token, until: detached.until };
    this.replace(detached, holder);
    return this.giveWholeLease(holder, leaseMs);
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

  /** Removes the owner, and grants the lock to the next waiters. @returns whether the owner held the lock */
  release(
    { owner, used }: Pick<ReleaseRequest, 'owner' | 'used'>,
    { holdMs = 0, mayHaveNote = false }: ReleaseOptions = {},
  ): boolean {
    if (mayHaveNote || this.reading.mayLackNotes) this.mayMissNote = true;
    const holder = this.holderOf(owner);
    // Write even if the owner's lease has expired: a client whose estimate of the time is earlier treats it as the holder until a
    // write removes it. Write as well if only a note of the owner is left, which nobody merges while the key is in use as the other
    // kind (lock or permits): otherwise another client would later grant the lock to this owner, which no longer waits.
    const { document, notes } = this.reading;
    const written = [...document.holders, ...notes, ...this.holders, ...this.queue];
    if (written.some((entry) => entry.owner === owner)) this.isChangedNow = true;
    this.queue = this.queue.filter((waiter) => waiter.owner !== owner);
    this.holders = this.holders.filter((each) => each !== holder);
    if (holder && holdMs > 0) this.leavePlaceholder(holder, holdMs);
    if (holder && used?.lastToken === this.lastTokenNow) this.lastTokenNow = used.token;
    this.grantNext();
    return holder !== undefined;
  }

  /** @param owners which holders lose the lock, while the others keep it; default: all */
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
   * Records in the holder's entry that another owner will take the lock over, and notifies the holder's client. The client that
   * takes over repeats its announcement with the grace that is left, so only a shorter grace replaces an earlier one.
   *
   * @returns whether the owner holds the lock, so that there is a client to notify
   */
  announceTakeover({ owner, graceMs, by }: TakeoverNotice): boolean {
    const holder = this.holderOf(owner);
    if (!holder || isPlaceholder(owner)) return false;
    if (holder.takeover && holder.takeover.graceMs <= graceMs) return true;
    this.replace(holder, { ...holder, takeover: { graceMs, by } });
    this.isChangedNow = true;
    this.notifyClientsOf([holder]);
    return true;
  }

  /** Describes the key without holders and waiters whose time has run out. */
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
   * Drops all waiters of clients that did not confirm a grant in time, because these clients have crashed or are out of reach.
   * Otherwise each of these waiters would be granted the lock in turn, and hold everybody up.
   *
   * @returns the ids of these clients
   */
  private dropUnreached(before: readonly Holder[]): ReadonlySet<string> {
    const unreached = before.filter((holder) => holder.isUnconfirmed && !this.holders.includes(holder));
    const clients = new Set(unreached.map(({ owner }) => clientOf(owner)));
    if (clients.size > 0) this.queue = this.queue.filter(({ owner }) => !clients.has(clientOf(owner)));
    return clients;
  }

  /**
   * Moves the owner of a note into the queue, unless another client granted it the lock while the note was on its way, or too many
   * others wait.
   */
  private mergeNote(note: StoredNote): void {
    const at = note.at / 1000;
    const hasCrossed = this.reading.document.holders.some(
      ({ owner, until }) => owner === note.owner && !isOver(until, at),
    );
    if (hasCrossed || isOtherKind(note.claim, this.usedAs)) return;
    if (!this.isQueued(note.owner) && this.isFull(note)) return;
    this.put(note, note.ticket || note.at, at + note.waitMs);
  }

  private join(note: Note): void {
    const isNew = !this.isQueued(note.owner);
    const last = this.queue.at(-1)?.ticket ?? 0;
    // Waiters with equal tickets stay in order of arrival. With a larger ticket than necessary, notes that are merged later would
    // overtake this owner.
    const ticket = note.ticket || Math.max(this.reading.nextTicket, last);
    this.put(note, ticket, { inMs: note.waitMs });
    if (!isNew) return;
    this.hasAddedOwner = this.isChangedNow = true;
    this.notifyClientsOf(this.holders);
  }

  /** Inserts a waiter by its ticket, or replaces the owner's entry, which keeps its ticket. */
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
   * Grants the lock to the first waiters of the queue, as many as may hold it together, and drops waiters whose clients are gone. An
   * owner of another client gets a short initial lease, until it confirms the grant.
   *
   * @param asker the owner that is acquiring, if this is part of an acquire
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

  /** Gives a holder that renews, or acquires again, its whole lease from this write on. */
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

  /** Keeps the key locked for the rest of a minimum hold, and notifies the first waiter, which then rechecks when that ends. */
  private leavePlaceholder(holder: Holder, holdMs: number): void {
    const { claim, token, lastToken, leaseMs, session } = holder;
    this.holders.push({
      owner: placeholderOf(holder.owner),
      claim,
      token,
      lastToken,
      until: { inMs: holdMs },
      ...(leaseMs !== undefined && { leaseMs }),
      ...(session !== undefined && { session }),
    });
    this.notifyClientsOf(this.queue.slice(0, 1));
  }

  /** Whether the owner must not join the queue, because `maxWaiting` other owners or more wait already. */
  private isOneTooMany({ owner, mayWait, claim, maxWaiting = Infinity }: AcquireRequest): boolean {
    if (!mayWait || maxWaiting === Infinity || this.isQueued(owner)) return false;
    this.grantNext();
    return this.isFull({ owner, claim, maxWaiting });
  }

  /** Whether an owner that is not in the queue would have to wait there behind `maxWaiting` others or more. */
  private isFull({ owner, claim, maxWaiting = Infinity }: Limited): boolean {
    const isFree = this.queue.length === 0 && mayEnter(claim, this.holders);
    return !isFree && this.countOthers(owner) >= maxWaiting;
  }

  private isQueued(owner: string): boolean {
    return this.queue.some((waiter) => waiter.owner === owner);
  }

  /** How many other owners wait whose clients are not gone. */
  private countOthers(asker: string): number {
    return this.queue.filter((waiter) => waiter.owner !== asker && !this.isGone(waiter)).length;
  }

  private isGone({ owner, until }: StoredWaiter): boolean {
    return isOver(until, this.now) || this.client.isGone?.(clientOf(owner)) === true;
  }

  private queuedOrBusy({ owner, mayWait, maxWaiting }: AcquireRequest): AcquireOutcome {
    const counted = mayWait && maxWaiting !== undefined && { waiting: this.countOthers(owner) };
    const holder = this.holders[0]?.owner;
    const remainingMs = this.remainingMs();
    const mine = this.queue.find((waiter) => waiter.owner === owner);
    if (!mine) return { kind: 'busy', holder, remainingMs, ...counted };
    return {
      kind: 'queued',
      ticket: mine.ticket,
      holder,
      remainingMs,
      recheckAfterMs: this.recheckAfterMs(remainingMs),
      ...counted,
    };
  }

  /**
   * When a waiter asks again, in ms: as soon as the first lease should have ended.
   *
   * Where sessions keep leases, the holder's own client ends them and notifies the waiters, and until then what remains is always the whole
   * lease. So behind a lease of 10 ms a waiter would recheck all the time. Each recheck stores a note, which fails the exact write by
   * which a client with slower round trips ends that lease: it would never end.
   */
  private recheckAfterMs(remainingMs: number): number {
    if (this.client.areRenewalsWritten) return recheckAfter(remainingMs);
    return recheckAfter(Math.max(remainingMs, MIN_SESSION_RECHECK_MS));
  }

  private notifyClientsOf(owners: readonly { readonly owner: string }[]): void {
    for (const { owner } of owners) this.toNotify.push(clientOf(owner));
  }

  private holderOf(owner: string): Holder | undefined {
    return this.holders.find((holder) => holder.owner === owner);
  }

  /** How long until the first of the holders' leases ends, in ms. */
  private remainingMs(): number {
    if (this.holders.length === 0) return 0;
    return minOf(this.holders.map((holder) => remainingOf(holder, this.now)));
  }

  /** Any claim on the key, because all of them are for a lock, or all for permits. `undefined` if nobody holds or waits. */
  private get usedAs(): Claim | undefined {
    return this.holders[0]?.claim ?? this.queue[0]?.claim;
  }
}

/** The client that makes the change, and what its decisions depend on. */
export interface ActingClient {
  readonly clientId: string;
  /** The largest fencing token that this client has seen. It gives out larger ones, even if the back end lost its last writes. */
  readonly minToken: number;
  /** A secret in the entries of this client's waiters. The client accepts only grants that repeat it. */
  readonly nonce: string;
  /** The longest lease, in ms, that this client gives an owner of another client, which must confirm the grant in this time. */
  readonly initialLeaseMs: number;
  /** Whether a renewal writes the new end of the lease. Otherwise it only reads whether its owner still holds the lock. */
  readonly areRenewalsWritten: boolean;
  isGone?(clientId: string): boolean;
}

type Limited = Pick<AcquireRequest, 'owner' | 'claim' | 'maxWaiting'>;

/** A grant without `validUntil`, which depends on when the write was sent. */
type UntimedGrant = Omit<Grant, 'validUntil'>;
export type AcquireOutcome = UntimedGrant | Exclude<AcquireReply, Grant>;

interface ReleaseOptions {
  /** The rest of the minimum hold, in ms, during which nobody else may get the lock. */
  readonly holdMs?: number;
  /** An acquire of this owner got no reply, so a note of the owner may lie beside the document that the reading lacks. */
  readonly mayHaveNote?: boolean;
}

/** Whether an owner that asks for `claim` may hold the key together with the present holders. */
function mayEnter(claim: Claim, holders: readonly Holder[]): boolean {
  if (isExclusive(claim)) return holders.length === 0;
  if (claim.kind === 'shared') return holders.every((holder) => holder.claim.kind === 'shared');
  const used = holders.reduce((sum, holder) => sum + weightOf(holder.claim), 0);
  return used + claim.weight <= claim.permits;
}

function weightOf(claim: Claim): number {
  return claim.kind === 'permits' ? claim.weight : 0;
}

/** Whether the claim asks for permits of a key that is in use as a lock, or the reverse. Such claims cannot share a document. */
function isOtherKind(claim: Claim, usedAs: Claim | undefined): boolean {
  return usedAs !== undefined && (usedAs.kind === 'permits') !== (claim.kind === 'permits');
}

/** @throws LockStoreError if the claim asks for permits of a key that is in use as a lock, or the reverse */
function checkKind({ key, claim }: AcquireRequest, usedAs: Claim | undefined): void {
  if (!isOtherKind(claim, usedAs)) return;
  const [asked, used] = claim.kind === 'permits' ? ['permits', 'a lock'] : ['a lock', 'permits'];
  const message = `Could not acquire "${key}" as ${asked}: it is in use as ${used}. Give the two different keys.`;
  throw new LockStoreError(message, key, 'refused');
}
