import { timeOfDay, type Clock } from '../../time/clock.js';
import { within } from '../../time/within.js';
import { inBackground } from '../../async-context/in-background.js';
import { holderName, LockStoreError } from '../../port/lock.errors.js';
import type { LockClient, LockHolder } from '../../port/lock-client.js';
import type { GuardedStore } from './guarded-store.js';
import { holderIn, introductionText, type IntroducedHolder } from './introduction.js';
import type { LockInspection } from '../lock.js';
import type { LockSnapshot } from '../../port/lock-store.js';
import type { OwnerRegistry } from './owner-registry.js';

/** Short locks cost no introduction: the first one is written for an owner that has waited or held for this long. */
export const FIRST_INTRODUCTION_MS = 1000;
/** A call whose wait is over waits this long at most for the name of the holder. */
export const NAME_WITHIN_MS = 100;
/** Of a longer queue only the first ones are named, who have waited for the longest. */
const MAX_NAMED_WAITERS = 20;

/**
 * Tells the store who this client is and what it holds, and asks it who holds a lock.
 *
 * The client writes one entry for all its locks, while it holds or waits, three times in each `watchdogTimeoutMs`. The entry ends
 * by itself, no sooner than the locks that it names.
 */
export class Introductions {
  private cancel: (() => void) | undefined;
  /** How many owners there had been when the first introduction was scheduled; absent once it is written. */
  private ownersBefore: number | undefined;
  /** The readings under way, by client. */
  private readonly readings = new Map<string, Promise<string | undefined>>();
  private isRefused = false;
  private isStopped = false;

  constructor(private readonly parts: Parts) {}

  /** True if the name of this owner can be found: in the store, or because it is an owner of this process. */
  mayKnow(owner: string): boolean {
    const { client, store } = this.parts;
    return this.areKept || (client !== undefined && clientOf(owner) === store.clientId);
  }

  /** The store keeps introductions, and this client has one. */
  private get areKept(): boolean {
    const { client, store } = this.parts;
    return client !== undefined && store.introduce !== undefined;
  }

  /** An owner has begun to wait for a lock. */
  onOwner(): void {
    if (this.cancel === undefined && this.areKept && !this.isRefused && !this.isStopped) this.scheduleFirst();
  }

  stop(): void {
    this.isStopped = true;
    this.cancel?.();
  }

  /** How an owner of this client is called in messages to other processes: by its id, if the store is told no names. */
  nameOf(owner: string, site: string | undefined): string {
    const { client } = this.parts;
    return holderName({ ...(client && { client }), ...(site !== undefined && { site }) }) ?? owner;
  }

  /** Who the owners are. Never rejects: what is not known is left out. */
  async find(owners: readonly string[]): Promise<readonly LockHolder[]> {
    return (await this.introduced(owners)).map(({ holder }) => holder);
  }

  /** Says of a key who holds it and who waits for it. Never rejects. */
  async describe(snapshot: LockSnapshot): Promise<LockInspection> {
    const { holders, pending, remainingMs } = snapshot;
    const [held, waiters] = await Promise.all([
      this.introduced(holders),
      this.find(pending.slice(0, MAX_NAMED_WAITERS)),
    ]);
    const unnamed = pending.slice(MAX_NAMED_WAITERS).map((owner) => ({ owner }));
    const heldBy = held.map(({ holder }) => holder);
    // The store tells one remaining time for all holders. Nothing is gone of a lease that no clock counts down.
    const renewedAgoMs = held.length === 1 ? (held[0]?.leaseMs ?? 0) - remainingMs : 0;
    const renewed = renewedAgoMs > 0 && { renewedAgoMs };
    return { ...snapshot, heldBy, waiters: [...waiters, ...unnamed], ...renewed };
  }

  private async introduced(owners: readonly string[]): Promise<readonly IntroducedHolder[]> {
    const texts = await Promise.all(owners.map((owner) => this.textOf(clientOf(owner))));
    const now = timeOfDay(this.parts.clock);
    return owners.map((owner, i) => holderIn(texts[i], owner, now));
  }

  /** Who one owner is. Resolves within `NAME_WITHIN_MS`, then with the owner id alone. */
  findSoon(owner: string): Promise<LockHolder> {
    const found = this.find([owner]).then(([holder]) => holder as LockHolder);
    return within(this.parts.clock, NAME_WITHIN_MS, found, { owner });
  }

  /** Callers whose waits end together, and the keys of a page, share one reading of a client. */
  private textOf(clientId: string): Promise<string | undefined> {
    const shared = this.readings.get(clientId);
    if (shared) return shared;
    const text = this.readText(clientId).finally(() => this.readings.delete(clientId));
    this.readings.set(clientId, text);
    return text;
  }

  private async readText(clientId: string): Promise<string | undefined> {
    const { store } = this.parts;
    if (clientId === store.clientId) return this.text();
    if (!this.areKept) return undefined;
    const found = await store.readIntroductions?.([clientId]).catch(() => []);
    return found?.[0];
  }

  private scheduleFirst(): void {
    this.ownersBefore = this.parts.owners.count;
    this.schedule(FIRST_INTRODUCTION_MS);
  }

  private schedule(ms: number): void {
    this.cancel = this.parts.clock.after(ms, () => this.onTime());
  }

  private onTime(): void {
    this.cancel = undefined;
    const { store, watchdogTimeoutMs, owners } = this.parts;
    if (owners.isEmpty || this.isStopped) return;
    // All owners from then are gone, so no introduction is needed.
    if (this.ownersBefore !== undefined && !owners.hasOneOf(this.ownersBefore)) return this.scheduleFirst();
    this.ownersBefore = undefined;
    const text = this.text();
    const longest = Math.max(0, ...owners.describeHolds().map(({ validForMs }) => validForMs));
    const leaseMs = Math.ceil(Math.max(watchdogTimeoutMs, longest));
    this.schedule(watchdogTimeoutMs / 3);
    if (text === undefined || !store.introduce) return;
    inBackground(store.introduce({ clientId: store.clientId, text, leaseMs }), (error) =>
      this.onFailed(error),
    );
  }

  /** A store that cannot be reached is told the next time. One that refuses will refuse again. */
  private onFailed(error: unknown): void {
    if (!(error instanceof LockStoreError) || error.reason !== 'refused' || this.isRefused) return;
    this.isRefused = true;
    this.cancel?.();
    this.cancel = undefined;
    this.parts.warn(
      `This process could not tell the store who it is, so nobody sees the names of what holds its locks. Locks work. Give application: false to stop that. ${error.message}`,
    );
  }

  private text(): string | undefined {
    const { client, owners } = this.parts;
    return client && introductionText(client, owners.describeHolds());
  }
}

interface Parts {
  readonly store: GuardedStore;
  readonly clock: Clock;
  readonly watchdogTimeoutMs: number;
  /** `undefined` if the store is to be told nothing. */
  readonly client: LockClient | undefined;
  readonly owners: OwnerRegistry;
  readonly warn: (message: string) => void;
}

function clientOf(owner: string): string {
  return owner.slice(0, owner.indexOf(':'));
}
