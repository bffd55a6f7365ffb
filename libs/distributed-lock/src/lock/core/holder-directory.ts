import { timeOfDay, within } from '../../common/clock.js';
import { maxOf } from '../../common/collections.js';
import { inBackground } from '../../common/promises.js';
import type { LockClient, LockHolder, LockSnapshot } from '../../port/lock-store.js';
import { holderName, LockStoreError } from '../../port/lock.errors.js';
import type { HoldSnapshot, LockInspection } from '../lock.js';
import type { Hold } from './hold.js';
import type { LockRuntime } from './lock-runtime.js';

/** The time between two checks whether to publish an entry. A client whose owners are all younger than this writes none. */
export const FIRST_HOLDER_ENTRY_MS = 1000;
/** A call that has timed out looks up who holds the lock, to name it in the error. After this time it rejects without the name. */
export const NAME_WITHIN_MS = 100;
/** `describe` looks up the names of this many waiters at the head of the queue. Those behind are listed by owner id alone. */
const MAX_NAMED_WAITERS = 20;

/**
 * Publishes in the store who this client is and what it holds, and looks up who holds a lock.
 *
 * The client writes one JSON entry for all its locks: three times in each `watchdogTimeoutMs` while it holds or waits, and earlier if
 * others wait for a lock that the last entry does not name. The entry expires by itself, no sooner than the locks that it names.
 */
export class HolderDirectory {
  /** Stops the checks. Set while the client has owners. */
  private cancel: (() => void) | undefined;
  /** How many owners there had been at the last check. */
  private ownersBefore = 0;
  private writtenAt = -Infinity;
  /** The ids of the owners that the last entry names. */
  private named: ReadonlySet<string> = new Set();
  /** Whether others may wait for a lock that the last entry does not name. */
  private mayBeAwaited = false;
  /** Reads of other clients' entries that are in flight, by client id. */
  private readonly readings = new Map<string, Promise<ClientEntry | undefined>>();
  /** Set when the service closes, or when the store has refused an entry. */
  private isStopped = false;

  constructor(private readonly runtime: LockRuntime) {}

  // --- our own entry --------------------------------------------------------------------------------------------

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

  /**
   * How messages to other processes name an owner of this client: by application, host and site; by the owner id, if the application
   * does not want to be named.
   */
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
    // Schedule the next check before anything that may fail.
    this.schedule();
    // An entry is due three times in each `watchdogTimeoutMs`. Write it now if the next check would be too late for that.
    const isDue = clock.now() - this.writtenAt >= watchdogTimeoutMs / 3 - FIRST_HOLDER_ENTRY_MS;
    if (isDue ? hasLongOwner : this.isAwaited()) this.write();
  }

  /** Whether others wait for a lock that this process has held for `FIRST_HOLDER_ENTRY_MS` and that its last entry does not name. */
  private isAwaited(): boolean {
    // An entry names at most `MAX_AWAITED` such locks, so a new entry would not name more.
    if (!this.mayBeAwaited || this.named.size >= MAX_AWAITED) return false;
    const { naming: clock, owners } = this.runtime;
    let first = Infinity;
    for (const { acquiredAt, owner } of owners.allHolds())
      if (acquiredAt < first && owner.contention.isContended && !this.named.has(owner.id)) first = acquiredAt;
    this.mayBeAwaited = first < Infinity;
    return clock.now() - first >= FIRST_HOLDER_ENTRY_MS;
  }

  private write(): void {
    const { client, naming: clock, store, watchdogTimeoutMs, owners } = this.runtime;
    if (!client) return;
    this.writtenAt = clock.now();
    const holds = holdsToName(owners.allHolds()).map((hold) => hold.describe());
    this.named = new Set(holds.map(({ owner }) => owner));
    const longestMs = maxOf(Array.from(owners, (owner) => owner.validForMs));
    const entry = {
      clientId: store.clientId,
      text: holderEntryText(client, holds),
      leaseMs: Math.ceil(Math.max(watchdogTimeoutMs, 3 * FIRST_HOLDER_ENTRY_MS, longestMs)),
    };
    inBackground(store.publishHolderEntry(entry), (error) => this.onFailed(error));
  }

  /** Stops with a warning if the store has refused an entry, because it will refuse again. After other errors the next entry is written. */
  private onFailed(error: unknown): void {
    if (!(error instanceof LockStoreError) || error.reason !== 'refused' || this.isStopped) return;
    this.stop();
    this.runtime.events.warn(
      `This process could not tell the store who it is, so nobody sees the names of what holds its locks. Locks work. Give application: false to stop that. ${error.message}`,
    );
  }

  // --- entries of other clients ---------------------------------------------------------------------------------

  mayKnow(owner: string): boolean {
    return this.areKept || (this.runtime.client !== undefined && this.isOwn(owner));
  }

  /** Looks up who an owner is. If that takes longer than `NAME_WITHIN_MS`, it resolves with the owner id alone. */
  async findSoon(owner: string): Promise<LockHolder> {
    const found = this.find(owner).then(({ holder }) => holder);
    const names = await within(this.runtime.naming, NAME_WITHIN_MS, found);
    return names === 'late' ? { owner } : names;
  }

  /** Adds to a snapshot who holds the key and who waits for it. Never rejects: names that cannot be found are left out. */
  async describe(snapshot: LockSnapshot): Promise<LockInspection> {
    const { holders, pending, remainingMs } = snapshot;
    const [held, waiting] = await Promise.all([
      Promise.all(holders.map((owner) => this.find(owner))),
      Promise.all(pending.slice(0, MAX_NAMED_WAITERS).map((owner) => this.find(owner))),
    ]);
    const heldBy = held.map(({ holder }) => holder);
    const unnamed = pending.slice(MAX_NAMED_WAITERS).map((owner) => ({ owner }));
    const waiters = [...waiting.map(({ holder }) => holder), ...unnamed];
    // `remainingMs` belongs to only one of the holders' leases, so we can tell how old a renewal is only if there is just one holder. A
    // lease that does not run out has no such age.
    const renewedAgoMs = held.length === 1 ? (held[0]?.leaseMs ?? 0) - remainingMs : 0;
    return { ...snapshot, heldBy, waiters, ...(renewedAgoMs > 0 && { renewedAgoMs }) };
  }

  private async find(owner: string): Promise<NamedHolder> {
    if (this.isOwn(owner)) return this.ownHolder(owner);
    const entry = await this.readOnce(clientOf(owner));
    if (!entry) return { holder: { owner } };
    return holderIn(entry, owner, timeOfDay(this.runtime.naming));
  }

  private ownHolder(owner: string): NamedHolder {
    const { client, owners } = this.runtime;
    if (!client) return { holder: { owner } };
    // The first hold of an owner is the one held longest.
    const [hold] = owners.get(requestedId(owner))?.holds ?? [];
    const { site, heldMs, leaseMs } = hold?.describe() ?? {};
    const holder = {
      owner,
      client,
      ...(site !== undefined && { site }),
      ...(heldMs !== undefined && { heldMs: Math.round(heldMs) }),
    };
    return { holder, leaseMs };
  }

  /** Reads the entry of a client. Calls that need the same entry at the same time share one request, as when many waits time out together. */
  private readOnce(clientId: string): Promise<ClientEntry | undefined> {
    const reading =
      this.readings.get(clientId) ?? this.read(clientId).finally(() => this.readings.delete(clientId));
    this.readings.set(clientId, reading);
    return reading;
  }

  private async read(clientId: string): Promise<ClientEntry | undefined> {
    if (!this.areKept) return undefined;
    const [text] = await this.runtime.store.readHolderEntries([clientId]).catch(() => []);
    return holderEntryIn(text);
  }

  /** Whether the store keeps holder entries and this client wants to be named. */
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

/**
 * A holder entry names at most this many holds that others wait for, and at most `MAX_LONGEST` of the rest: those that have been held
 * longest.
 */
export const MAX_AWAITED = 200;
const MAX_LONGEST = 20;
/** The latest moment that a `Date` can represent, in ms. */
const MAX_DATE = 8.64e15;
/** Ten years, in ms. An entry with an older lock was forged, or the clock of its writer was wrong. Then we leave the age out. */
const MAX_HELD_MS = 3650 * 86_400_000;

/** The JSON of a holder entry: which process the client is, and for each hold its owner, its start, its site and its lease. */
type Text = readonly [application: string, host: string, process: number, since: number, ...HoldText[]];
type HoldText = readonly [owner: string, since: number, site: string | null, leaseMs: number];

function holderEntryText(client: LockClient, holds: readonly HoldSnapshot[]): string {
  const { application, host, process, since } = client;
  const texts = holds.map((it): HoldText => [it.owner, +it.since, it.site ?? null, it.leaseMs]);
  return JSON.stringify([application, host.slice(0, 100), process, +since, ...texts] satisfies Text);
}

/** Who an owner is, and the full length of its lease, as far as its client has published them. */
interface NamedHolder {
  readonly holder: LockHolder;
  readonly leaseMs?: number | undefined;
}

/** A parsed holder entry. Any client of the back end may have written it, so the parts of `holds` are checked only when they are used. */
interface ClientEntry {
  readonly client: LockClient;
  readonly holds: readonly unknown[];
}

/** Parses a holder entry. @returns `undefined` if no client of this package can have written it */
function holderEntryIn(text: string | undefined): ClientEntry | undefined {
  const [application, host, process, since, ...holds] = listIn(text);
  const isKnown = typeof application === 'string' && typeof host === 'string';
  if (!isKnown || !Number.isSafeInteger(process) || !isMoment(since)) return undefined;
  return { client: { application, host, process: process as number, since: new Date(since) }, holds };
}

/** Finds in the entry of a client what it says about one of its owners. @param timeOfDay the present time of day, in ms */
function holderIn({ client, holds }: ClientEntry, owner: string, timeOfDay: number): NamedHolder {
  // If an owner has several holds, the first one is held longest.
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

/** The id of an owner in its own process. During the rest of a minimum hold, the store has the same id with `:-` instead of `:`. */
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

/** Chooses the holds that an entry names. Looks at each hold once, because a process may hold 100 000 locks. */
function holdsToName(holds: Iterable<Hold>): readonly Hold[] {
  const awaited: Hold[] = [];
  const others: Hold[] = [];
  for (const hold of holds) {
    if (hold.owner.contention.isContended) keepLongest(awaited, hold, MAX_AWAITED);
    else keepLongest(others, hold, MAX_LONGEST);
  }
  return [...awaited, ...others];
}

/** Adds `hold` to the longest-held ones, which are sorted, and drops the newest one if there are more than `max`. */
function keepLongest(longest: Hold[], hold: Hold, max: number): void {
  const i = longest.findLastIndex(({ acquiredAt }) => acquiredAt <= hold.acquiredAt) + 1;
  longest.splice(i, 0, hold);
  if (longest.length > max) longest.pop();
}
