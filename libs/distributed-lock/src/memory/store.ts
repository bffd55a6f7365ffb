import { type Clock, systemChance, timeOfDay } from '../common/clock.js';
import {
  clientsOf,
  FREE,
  isFree,
  isOver,
  type LockDocument,
  type Note,
  type Reading,
  resolveAll,
  type StoredNote,
} from '../document/document.js';
import { DocumentStore } from '../document/store.js';
import type {
  NamePage,
  NameRequest,
  Register,
  RegisterListener,
  Swap,
  Take,
  WriteReply,
} from '../document/timed-register.js';
import type { HolderEntry, LockStoreFactory } from '../port/lock-store.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { describeGiven } from '../port/option-checks.js';

const NO_ENTRY: Entry = { version: 0, document: FREE, notes: [], lastToken: 0 };
const MIN_SWEEP = 256;

/** The documents of one memory store, which all its clients share. A document that becomes free is deleted. */
export class MemoryDocuments {
  /** The listener of each open client, by its id. */
  readonly listeners = new Map<string, RegisterListener>();
  readonly holderEntries = new Map<string, { readonly text: string; readonly until: number }>();
  private readonly entries = new Map<string, Entry>();
  /**
   * The last fencing token of all keys together. The last token of each key would be lost when the document of a free key is
   * deleted.
   */
  private lastToken: number;
  private lastVersion = 0;
  private lastNoteAt = 0;
  private nextSweep = MIN_SWEEP;

  /**
   * @param startedAt wall-clock time in ms. The first tokens are larger than it, so that tokens grow even across a restart of the
   * process
   */
  constructor(startedAt: number) {
    this.lastToken = startedAt * 1000;
  }

  /** The names after `after` that begin with `prefix`, in order. */
  namesAfter({ prefix, after }: NameRequest): readonly string[] {
    const isNext = (name: string) => name.startsWith(prefix) && (after === undefined || name > after);
    return [...this.entries.keys()].filter(isNext).sort();
  }

  read(name: string, now: number): Reading {
    const { version, document, notes, lastToken } = this.entries.get(name) ?? NO_ENTRY;
    return {
      version,
      order: this.lastVersion,
      document,
      notes,
      notesRead: notes.length,
      lastToken,
      ticks: this.lastToken,
      nextTicket: Math.floor(now * 1000),
      now,
    };
  }

  write(name: string, entry: Omit<Entry, 'version'>, now: number): Reading {
    const { lastToken: before } = this.entries.get(name) ?? NO_ENTRY;
    const isGivenBack = before === this.lastToken && entry.lastToken < before;
    this.lastToken = isGivenBack ? entry.lastToken : Math.max(this.lastToken, entry.lastToken);
    this.lastVersion += 1;
    if (isFree(entry.document) && entry.notes.length === 0) this.entries.delete(name);
    else this.entries.set(name, { ...entry, version: this.lastVersion });
    if (this.entries.size > this.nextSweep) this.sweep(now);
    return this.read(name, now);
  }

  addNotes(name: string, added: readonly Note[], now: number): void {
    const entry = this.entries.get(name) ?? NO_ENTRY;
    const stored = added.map((note) => ({ ...note, at: this.noteAt(now) }));
    this.entries.set(name, { ...entry, notes: [...entry.notes, ...stored] });
  }

  notify(name: string, clients: readonly string[], now: number): void {
    for (const client of clients) this.listeners.get(client)?.onReading(name, this.read(name, now));
  }

  /** Deletes documents whose leases have all expired. If nobody uses their keys again, nothing else would delete them. */
  private sweep(now: number): void {
    for (const [name, { document, notes }] of this.entries) {
      const isUsed = [...document.holders, ...document.queue].some(({ until }) => !isOver(until, now));
      if (!isUsed && notes.length === 0) this.entries.delete(name);
    }
    this.nextSweep = 2 * this.entries.size + MIN_SWEEP;
  }

  /** The time in microseconds, but always larger than the last result, so that notes keep their order. */
  private noteAt(now: number): number {
    return (this.lastNoteAt = Math.max(this.lastNoteAt + 1, Math.floor(now * 1000)));
  }
}

/** A register in the memory of this process. Notifications are never lost here, and the register knows which clients are closed. */
export class MemoryRegister implements Register {
  readonly commandTimeoutMs = 1;
  readonly initialLeaseMs = Infinity;
  readonly mayLoseWrites = true;
  readonly isRemote = false;

  constructor(
    private readonly documents: MemoryDocuments,
    private readonly clientId: string,
    private readonly clock: Clock,
  ) {}

  listen(listener: RegisterListener): void {
    this.documents.listeners.set(this.clientId, listener);
  }

  isGone(clientId: string): boolean {
    return !this.documents.listeners.has(clientId);
  }

  async take(take: Take): Promise<WriteReply> {
    const now = this.clock.now();
    const before = this.documents.read(take.name, now);
    if (isFree(before.document)) return { isDone: true, reading: this.grant(take, before) };
    if (take.notes.length > 0) {
      this.documents.addNotes(take.name, take.notes, now);
      this.documents.notify(take.name, clientsOf(before.document.holders), now);
    }
    return { isDone: false, reading: this.documents.read(take.name, now) };
  }

  async swap({ name, expected, next, lastToken, failOnUnreadNotes, notified }: Swap): Promise<WriteReply> {
    const now = this.clock.now();
    const { version, notes } = this.documents.read(name, now);
    const isDone =
      version === expected.version && (!failOnUnreadNotes || notes.length === expected.notesRead);
    if (isDone) {
      const document = resolveAll(next, now);
      this.documents.write(name, { document, notes: notes.slice(expected.notesRead), lastToken }, now);
      this.documents.notify(name, notified, now);
    }
    return { isDone, reading: this.documents.read(name, now) };
  }

  async read(name: string): Promise<Reading> {
    return this.documents.read(name, this.clock.now());
  }

  async publishHolderEntry({ clientId, text, leaseMs }: HolderEntry): Promise<void> {
    const { holderEntries } = this.documents;
    const now = this.clock.now();
    for (const [id, { until }] of holderEntries) if (until <= now) holderEntries.delete(id);
    holderEntries.set(clientId, { text, until: now + leaseMs });
  }

  async readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    const found = clientIds.map((id) => this.documents.holderEntries.get(id));
    return found.map((each) => (each && each.until > this.clock.now() ? each.text : undefined));
  }

  async list(request: NameRequest): Promise<NamePage> {
    const all = this.documents.namesAfter(request);
    const names = all.slice(0, request.most);
    return { names, after: names.length < all.length ? names.at(-1) : undefined };
  }

  async close(): Promise<void> {
    this.documents.listeners.delete(this.clientId);
  }

  private grant({ name, request, minToken }: Take, { lastToken: last, ticks, now }: Reading): Reading {
    const { owner, claim, leaseMs, tokens } = request;
    const token = Math.max(last, ticks, minToken) + 1;
    const lastToken = token + tokens - 1;
    const document = { holders: [{ owner, claim, token, lastToken, until: now + leaseMs }], queue: [] };
    return this.documents.write(name, { document, notes: [], lastToken }, now);
  }
}

interface Entry {
  readonly version: number;
  readonly document: LockDocument;
  readonly notes: readonly StoredNote[];
  readonly lastToken: number;
}

/**
 * Locks in the memory of one thread of this process: the default store, and all that tests need.
 *
 * It excludes callers of this thread only. Worker threads, such as those of Piscina, share no memory, and so no locks.
 * Registrations and applications that are given the result of the same call share their locks. The results of two calls share
 * nothing. Order, tokens and expiry are as on Redis.
 *
 * @example
 * ```ts
 * import { DistributedLockModule, memoryStore } from 'nestjs-distributed-lock';
 *
 * DistributedLockModule.forRoot({ store: memoryStore() });
 * ```
 */
export function memoryStore(): LockStoreFactory;
export function memoryStore(given?: unknown): LockStoreFactory {
  if (given !== undefined) {
    throw new LockConfigurationError(
      `memoryStore takes nothing; it was given ${describeGiven(given)}. For locks in Redis write redisStore(…).`,
    );
  }
  let documents: MemoryDocuments | undefined;
  return {
    create(context) {
      const { clock, chance = systemChance } = context;
      const clientId = chance.uuid();
      documents ??= new MemoryDocuments(timeOfDay(clock));
      const register = new MemoryRegister(documents, clientId, clock);
      return new DocumentStore({ name: 'memory', clientId }, register, context);
    },
  };
}
