import { timeOfDay, within } from '../../common/clock.js';
import { inBackground } from '../../common/promises.js';
import type { LockClient, LockHolder, LockSnapshot } from '../../port/lock-store.js';
import { holderName, LockStoreError } from '../../port/lock.errors.js';
import type { HoldSnapshot, LockInspection } from '../lock.js';
import type { LockRuntime } from './lock-runtime.js';

/** How often a client looks whether to publishes its holder entry. Locks that are held and waited for more shortly cost no holder entry. */
export const FIRST_HOLDER_ENTRY_MS = 1000;
/** A call whose wait is over waits this long at most for the name of the holder. */
export const NAME_WITHIN_MS = 100;
/** Of a longer queue only the first ones are named, who have waited for the longest. */
const MAX_NAMED_WAITERS = 20;

/**
 * Tells the store who this client is and what it holds, and asks it who holds a lock.
 *
 * The client writes one entry for all its locks, three times in each `watchdogTimeoutMs` while it holds or waits, and earlier if
 * others wait for a lock that the entry does not name. The entry ends by itself, no sooner than the locks that it names.
 */
export class HolderDirectory {
  /** Set while the client has owners: it looks every `FIRST_HOLDER_ENTRY_MS` whether to write an entry. */
  private cancel: (() => void) | undefined;
  /** How many owners there had been at the last look. */
  private ownersBefore = 0;
  private writtenAt = -Infinity;
  /** The owners in the last entry. */
  private named: ReadonlySet<string> = new Set();
  /** Others may wait for a lock that the last entry does not name. */
  private mayBeAwaited = false;
  /** The readings under way, by client. */
  private readonly readings = new Map<string, Promise<ClientEntry | undefined>>();
  /** The service closes, or the store has refused an entry. */
  private isStopped = false;

  constructor(private readonly runtime: LockRuntime) {}

  // --- what others are told -------------------------------------------------------------------------------------

  /** Called when an owner begins to ask for its key. */
  onOwner(): void {
    if (this.cancel === undefined && !this.isStopped && this.areKept) this.schedule();
  }

  /** Called when others begin to wait for a lock of this process. */
  onContended(): void {
    this.mayBeAwaited = true;
  }

  stop(): void {
    this.isStopped = true;
    this.cancel?.();
  }

  /** How an owner of this client is called in messages to other processes: by its id, if the store is told no names. */
  nameOf(owner: string, site: string | undefined): string {
    const { client } = this.runtime;
    return holderName({ ...(client && { client }), ...(site !== undefined && { site }) }) ?? owner;
  }

  private schedule(): void {
    this.ownersBefore = this.runtime.owners.count;
    this.cancel = this.runtime.naming.after(FIRST_HOLDER_ENTRY_MS, () => this.look());
  }

  private look(): void {
    this.cancel = undefined;
    const { naming: clock, owners, watchdogTimeoutMs } = this.runtime;
    if (owners.isEmpty) return;
    const hasLongOwner = owners.hasOneOf(this.ownersBefore);
    // Scheduled before anything that may fail.
    this.schedule();
    // The next look would come too late.
    const isDue = clock.now() - this.writtenAt >= watchdogTimeoutMs / 3 - FIRST_HOLDER_ENTRY_MS;
    if (isDue ? hasLongOwner : this.isAwaited()) this.write();
  }

  /** Others wait for a lock that has been held for a while, and that the last entry does not name. */
  private isAwaited(): boolean {
    // An entry names no more of them than that.
    if (!this.mayBeAwaited || this.named.size >= MAX_AWAITED) return false;
    const heldMs = this.runtime.owners.longestAwaitedBeside(this.named);
    this.mayBeAwaited = heldMs !== undefined;
    return heldMs !== undefined && heldMs >= FIRST_HOLDER_ENTRY_MS;
  }

  private write(): void {
    const { client, naming: clock, store, watchdogTimeoutMs, owners } = this.runtime;
    if (!client) return;
    this.writtenAt = clock.now();
    const holds = owners.describeHoldsToName();
    this.named = new Set(holds.map(({ owner }) => owner));
    const entry = {
      clientId: store.clientId,
      text: holderEntryText(client, holds),
      leaseMs: Math.ceil(Math.max(watchdogTimeoutMs, 3 * FIRST_HOLDER_ENTRY_MS, owners.longestValidityMs)),
    };
    inBackground(store.publishHolderEntry(entry), (error) => this.onFailed(error));
  }

  /** A store that cannot be reached is told the next time. One that refuses will refuse again. */
  private onFailed(error: unknown): void {
    if (!(error instanceof LockStoreError) || error.reason !== 'refused' || this.isStopped) return;
    this.stop();
    this.runtime.events.warn(
      `This process could not tell the store who it is, so nobody sees the names of what holds its locks. Locks work. Give application: false to stop that. ${error.message}`,
    );
  }

  // --- who others are -------------------------------------------------------------------------------------------

  /** True if the name of this owner can be found: in the store, or because it is an owner of this process. */
  mayKnow(owner: string): boolean {
    return this.areKept || (this.runtime.client !== undefined && this.isOwn(owner));
  }

  /** Who one owner is. Resolves within `NAME_WITHIN_MS`, then with the owner id alone. */
  findSoon(owner: string): Promise<LockHolder> {
    const found = this.find(owner).then(({ holder }) => holder);
    return within(this.runtime.naming, NAME_WITHIN_MS, found, { owner });
  }

  /** Says of a key who holds it and who waits for it. Never rejects: what is not known is left out. */
  async describe(snapshot: LockSnapshot): Promise<LockInspection> {
    const { holders, pending, remainingMs } = snapshot;
    const [held, waiting] = await Promise.all([
      Promise.all(holders.map((owner) => this.find(owner))),
      Promise.all(pending.slice(0, MAX_NAMED_WAITERS).map((owner) => this.find(owner))),
    ]);
    const heldBy = held.map(({ holder }) => holder);
    const unnamed = pending.slice(MAX_NAMED_WAITERS).map((owner) => ({ owner }));
    const waiters = [...waiting.map(({ holder }) => holder), ...unnamed];
    // The store tells one remaining time for all holders. Nothing is gone of a lease that no clock counts down.
    const renewedAgoMs = held.length === 1 ? (held[0]?.leaseMs ?? 0) - remainingMs : 0;
    return { ...snapshot, heldBy, waiters, ...(renewedAgoMs > 0 && { renewedAgoMs }) };
  }

  private async find(owner: string): Promise<NamedHolder> {
    if (this.isOwn(owner)) return this.ownHolder(owner);
    const entry = await this.readOnce(clientOf(owner));
    if (!entry) return { holder: { owner } };
    return holderIn(entry, owner, timeOfDay(this.runtime.naming));
  }

  /** Looks at this one owner, however many locks this process holds. */
  private ownHolder(owner: string): NamedHolder {
    const { client, owners } = this.runtime;
    if (!client) return { holder: { owner } };
    const { site, heldMs, leaseMs } = owners.describeHoldOf(requestedId(owner)) ?? {};
    const holder = {
      owner,
      client,
      ...(site !== undefined && { site }),
      ...(heldMs !== undefined && { heldMs: Math.round(heldMs) }),
    };
    return { holder, leaseMs };
  }

  /** Callers whose waits end together, and the keys of a page, share one reading of a client. */
  private readOnce(clientId: string): Promise<ClientEntry | undefined> {
    const shared = this.readings.get(clientId);
    if (shared) return shared;
    const reading = this.read(clientId).finally(() => this.readings.delete(clientId));
    this.readings.set(clientId, reading);
    return reading;
  }

  private async read(clientId: string): Promise<ClientEntry | undefined> {
    if (!this.areKept) return undefined;
    const [text] = await this.runtime.store.readHolderEntries([clientId]).catch(() => []);
    return holderEntryIn(text);
  }

  /** The store keeps holder entries, and this client has one. */
  private get areKept(): boolean {
    const { client, store } = this.runtime;
    return client !== undefined && store.can('names');
  }

  private isOwn(owner: string): boolean {
    return clientOf(owner) === this.runtime.store.clientId;
  }
}

function clientOf(owner: string): string {
  return owner.slice(0, owner.indexOf(':'));
}

/** A holder entry names this many holds that others wait for, and this many others, those that are held longest. */
export const MAX_AWAITED = 200;
const MAX_LONGEST = 20;
/** The farthest moment that a `Date` can name, in ms. */
const MAX_DATE = 8.64e15;
/** Ten years. A longer age was made up, or counts from a clock that was not set. */
const MAX_HELD_MS = 3650 * 86_400_000;

/** Which process a client is, and for each hold its owner, its start, and the method or site that acquired it. */
type Text = readonly [application: string, host: string, process: number, since: number, ...HoldText[]];
type HoldText = readonly [owner: string, since: number, site: string | null, leaseMs: number];

/** For 20 holds at most some kilobytes, for each further one that others wait for at most 160 bytes. */
function holderEntryText(client: LockClient, holds: readonly HoldSnapshot[]): string {
  const { application, host, process, since } = client;
  const texts = holds.map((it): HoldText => [it.owner, +it.since, it.site ?? null, it.leaseMs]);
  return JSON.stringify([application, host.slice(0, 100), process, +since, ...texts] satisfies Text);
}

/** Who an owner is, and how long its lease is as a whole, as far as its client tells. */
interface NamedHolder {
  readonly holder: LockHolder;
  readonly leaseMs?: number | undefined;
}

/** What a client has told of itself. Any client may have written it, so each part of it may be of any type. */
interface ClientEntry {
  readonly client: LockClient;
  /** The owner, the start, the site and the lease of each hold that it names. */
  readonly holds: readonly unknown[];
}

/** @returns `undefined` for a text that no client of this package has written */
function holderEntryIn(text: string | undefined): ClientEntry | undefined {
  const [application, host, process, since, ...holds] = listIn(text);
  const isKnown = typeof application === 'string' && typeof host === 'string';
  if (!isKnown || !Number.isSafeInteger(process) || !isMoment(since)) return undefined;
  return { client: { application, host, process: process as number, since: new Date(since) }, holds };
}

/** @param timeOfDay in ms */
function holderIn({ client, holds }: ClientEntry, owner: string, timeOfDay: number): NamedHolder {
  // The first of several holds of one owner is held longest.
  const hold = holds.find((it) => Array.isArray(it) && it[0] === requestedId(owner)) ?? [];
  const [, since, site, leaseMs] = hold as readonly unknown[];
  const heldMs = isMoment(since) ? Math.max(0, timeOfDay - since) : Infinity;
  const holder = {
    owner,
    client,
    ...(typeof site === 'string' && { site }),
    ...(heldMs <= MAX_HELD_MS && { heldMs }),
  };
  return { holder, leaseMs: typeof leaseMs === 'number' ? leaseMs : undefined };
}

/** The rest of a minimum hold is held under a placeholder of its owner. @returns the id with which the owner has asked */
function requestedId(owner: string): string {
  return owner.replace(':-', ':');
}

function isMoment(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= MAX_DATE;
}

function listIn(text: string | undefined): readonly unknown[] {
  try {
    const list: unknown = JSON.parse(text ?? '[]');
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}

interface NameableHold {
  readonly acquiredAt: number;
  readonly owner: { readonly contention: { readonly isContended: boolean } };
}

/**
 * The holds that a holder entry names. Looks at each hold once and describes none, because a process may hold 100 000 locks.
 */
export function holdsToName<H extends NameableHold>(holds: Iterable<H>): readonly H[] {
  const awaited: H[] = [];
  const others: H[] = [];
  for (const hold of holds) {
    if (hold.owner.contention.isContended) keepLongest(awaited, hold, MAX_AWAITED);
    else keepLongest(others, hold, MAX_LONGEST);
  }
  return [...awaited, ...others];
}

/** Adds `hold` to the longest-held ones, `max` at most, the longest-held one first. */
function keepLongest<H extends NameableHold>(longest: H[], hold: H, max: number): void {
  const i = longest.findLastIndex(({ acquiredAt }) => acquiredAt <= hold.acquiredAt) + 1;
  longest.splice(i, 0, hold);
  if (longest.length > max) longest.pop();
}
