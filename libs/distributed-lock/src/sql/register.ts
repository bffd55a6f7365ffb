import { type Chance, Delays, randomMs, systemChance } from '../common/clock.js';
import type { Clock } from '../common/clock.js';
import { inBackground } from '../common/promises.js';
import { keepAlive } from '../connection/timing.js';
import { FREE, isOver, type LockDocument, type Reading } from '../document/document.js';
import { asciiText, textIn } from '../document/text.js';
import type { PollPriority, Register, RegisterListener } from '../document/timed-register.js';
import { LOCK } from '../port/lock-store.js';
import type { HolderEntry, LockStoreContext } from '../port/lock-store.js';
import { HELD_POLL_MS } from '../port/timing.js';
import { SqlConnection, SqlDocuments } from './connection.js';
import type { SqlDatabase } from './database.js';
import { holderEntryRow, SQL_INITIAL_LEASE_MS } from './lock-table.js';

/** Documents in the rows of one table. Where nothing else notifies this client, it polls. */
export class SqlRegister extends SqlDocuments implements Register {
  readonly initialLeaseMs = SQL_INITIAL_LEASE_MS;
  readonly mayLoseWrites = true;
  readonly isRemote = true;
  readonly commandTimeoutMs: number;
  protected readonly poller: Poller;
  protected listener: RegisterListener | undefined;
  private readonly sweeper: TableSweeper | undefined;
  private readonly stopKeepingAlive: () => void;

  constructor(
    database: SqlDatabase,
    private readonly options: SqlRegisterOptions,
  ) {
    const { clock, chance = systemChance, commandTimeoutMs, address, onState } = options;
    const own = { clock, chance, commandTimeoutMs };
    const onTime = (now: number, sentAt: number) => this.listener?.onTime(now, sentAt);
    super(new SqlConnection(database, { ...own, address, onState, onTime }));
    this.commandTimeoutMs = commandTimeoutMs;
    this.poller = new Poller(
      clock,
      (name) => this.read(name),
      (name, reading) => this.listener?.onReading(name, reading),
    );
    if (database.access !== 'read') {
      this.sweeper = new TableSweeper(
        { clock, chance },
        () => new SqlDocuments(new SqlConnection(database, own)),
      );
    }
    this.stopKeepingAlive = keepAlive(clock, () => this.checkConnections());
  }

  get address(): string | undefined {
    return this.options.address;
  }

  listen(listener: RegisterListener): void {
    this.listener = listener;
  }

  watch(name: string, interest: PollPriority | undefined): void {
    this.poller.watch(name, interest);
  }

  /**
   * Each holder entry is a row with a document whose only holder is the client, and the text stands in place of the nonce. An older
   * version of this library takes the row for a lock, and sweeps it when its lease is over.
   */
  async publishHolderEntry({ clientId, text, leaseMs }: HolderEntry): Promise<void> {
    const name = holderEntryRow(clientId);
    const owner = `${clientId}:0`;
    const expected = await this.presentRow(name, owner, leaseMs);
    const lease = { until: { inMs: leaseMs }, nonce: asciiText(text) };
    const holder = { owner, claim: LOCK, token: 1, lastToken: 1, ...lease };
    await this.replace(name, expected, { holders: [holder], queue: [] });
  }

  async readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    const readings = await Promise.all(clientIds.map((id) => this.read(holderEntryRow(id))));
    return readings.map(({ document, now }) => {
      const [holder] = document.holders;
      return holder?.nonce && !isOver(holder.until, now) ? textIn(holder.nonce) : undefined;
    });
  }

  /** A connection that has died is replaced before a caller needs it. */
  protected checkConnections(): void {
    const checked = this.connection.runAlone((link) => link.ping());
    inBackground(checked, () => undefined);
  }

  override async close(): Promise<void> {
    this.stopKeepingAlive();
    this.sweeper?.close();
    this.poller.close();
    await super.close();
  }

  /** @returns the row, which this makes if there is none */
  private async presentRow(name: string, owner: string, leaseMs: number): Promise<Reading> {
    const found = await this.read(name);
    if (found.version !== undefined) return found;
    const request = { key: name, owner, claim: LOCK, leaseMs, waitMs: 0, ticket: 0, tokens: 1 };
    const notAfter = (): number => this.soonAfter(found);
    return (await this.takeRow({ name, request, minToken: 0, notes: [], notAfter })).reading;
  }
}

export interface SqlRegisterOptions extends LockStoreContext {
  readonly commandTimeoutMs: number;
  /** Where the database is, for messages. */
  readonly address?: string | undefined;
}

/** Each process sweeps at its own random times. */
const SWEEP_MS = { least: 5 * 60_000, spread: 5 * 60_000 };
/** A document whose leases and tickets are over for this long belongs to crashed processes. */
const ABANDONED_MS = 60 * 60_000;
/** Rows of one request: fewer after one that failed, as on a slow disk. */
const SLICE_ROWS = { most: 1000, least: 10 };
/** A sweep that deletes a smaller part of its rows than this doubles the wait for the next one, up to eight times the usual. */
const LITTLE = 0.1;
const MAX_PATIENCE = 8;

/**
 * Keeps the table small: abandoned documents are freed, and rows that were free for long are deleted.
 *
 * A sweep goes through the table in order of names, a slice at a time, and rests after each slice as long as that took. It
 * has a connection of its own for that time, because a slow slice must not delay the requests of callers.
 */
class TableSweeper {
  private readonly delays: Delays;
  private cancel = (): void => undefined;
  private documents: SqlDocuments | undefined;
  private isClosed = false;
  /** The next sweep goes on where this one has failed. */
  private after = '';
  private rows = SLICE_ROWS.most;
  private patience = 1;

  /** @param open connects for one sweep */
  constructor(
    private readonly context: { readonly clock: Clock; readonly chance: Chance },
    private readonly open: () => SqlDocuments,
  ) {
    this.delays = new Delays(context.clock);
    this.schedule();
  }

  close(): void {
    this.isClosed = true;
    this.cancel();
    this.delays.endAll();
    if (this.documents) inBackground(this.documents.close(), () => undefined);
  }

  private schedule(): void {
    if (this.isClosed) return;
    const { clock, chance } = this.context;
    // A sweep that fails is not repeated, because the next one does the same work.
    this.cancel = clock.after(randomMs(chance, SWEEP_MS) * this.patience, () =>
      inBackground(
        this.run().finally(() => this.schedule()),
        () => undefined,
      ),
    );
  }

  private async run(): Promise<void> {
    const documents = (this.documents = this.open());
    try {
      await this.sweep(documents);
    } finally {
      await documents.close();
    }
  }

  private async sweep(documents: SqlDocuments): Promise<void> {
    const seen = { rows: 0, free: 0 };
    do {
      const startedAt = this.context.clock.now();
      await this.sweepSlice(documents, seen);
      // At least a turn of the event loop: SQLite reads without one.
      await this.delays.wait(Math.max(1, this.context.clock.now() - startedAt));
    } while (this.after !== '' && !this.isClosed);
    const foundLittle = seen.rows > SLICE_ROWS.most && seen.free < seen.rows * LITTLE;
    this.patience = foundLittle ? Math.min(2 * this.patience, MAX_PATIENCE) : 1;
  }

  private async sweepSlice(documents: SqlDocuments, seen: { rows: number; free: number }): Promise<void> {
    const most = this.rows;
    this.rows = Math.max(Math.floor(most / 2), SLICE_ROWS.least);
    const { last = '', free, unwritten } = await documents.scan({ after: this.after, most });
    this.after = last;
    seen.rows += most;
    seen.free += free.length;
    await Promise.allSettled(unwritten.map((name) => this.freeAbandoned(documents, name)));
    // Another transaction may hold one of the rows. The slices after this one can be swept all the same.
    if (free.length === 0 || (await succeeds(documents.deleteFree(free)))) {
      this.rows = Math.min(2 * most, SLICE_ROWS.most);
    }
  }

  private async freeAbandoned(documents: SqlDocuments, name: string): Promise<void> {
    const expected = await documents.read(name);
    if (expected.version === undefined || !isAbandoned(expected)) return;
    await documents.replace(name, expected, FREE);
  }
}

function isAbandoned({ document, notes, now }: Reading): boolean {
  const limit = now - ABANDONED_MS;
  const { holders, queue }: LockDocument = document;
  return (
    [...holders, ...queue].every(({ until }) => isOver(until, limit)) &&
    notes.every(({ at }) => at / 1000 <= limit)
  );
}

async function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}

/** A waiter's document is read quickly after a change, then ever more slowly. For the k-th waiter it is k times as slowly. */
const FIRST_MS = { least: 2, most: 25, growth: 1.3 };
const SLOWEST_MS = 250;
/** Names with less than this part of their interval left are read with those that are due. */
const TOGETHER = 0.25;

/**
 * Reads the documents that this client depends on, if no notifications come from the database. One statement reads all
 * documents that are due, and one statement is under way at a time.
 */
class Poller {
  private readonly names = new Map<string, Watched>();
  private isActive = true;
  private isReading = false;
  private cancel: (() => void) | undefined;
  private timerAt = Infinity;

  /**
   * @param read called for several names in one turn makes one statement of them
   * @param onReading gets each document that has changed
   */
  constructor(
    private readonly clock: Clock,
    private readonly read: (name: string) => Promise<Reading>,
    private readonly onReading: (name: string, reading: Reading) => void,
  ) {}

  watch(name: string, interest: PollPriority | undefined): void {
    if (interest === undefined) {
      this.names.delete(name);
      return;
    }
    const watched = this.names.get(name);
    const everyMs = quickest(interest);
    const dueAt = this.clock.now() + everyMs;
    if (watched) Object.assign(watched, { interest, everyMs, dueAt });
    else this.names.set(name, { interest, everyMs, dueAt });
    this.schedule();
  }

  /** Nothing is read while notifications arrive. */
  setActive(isActive: boolean): void {
    this.isActive = isActive;
    this.schedule();
  }

  close(): void {
    this.names.clear();
    this.setActive(false);
  }

  private schedule(): void {
    let next = Infinity;
    if (this.isActive && !this.isReading) {
      for (const { dueAt } of this.names.values()) next = Math.min(next, dueAt);
    }
    if (next === this.timerAt) return;
    this.cancel?.();
    this.timerAt = next;
    if (next === Infinity) return;
    this.cancel = this.clock.after(Math.max(0, next - this.clock.now()), () => {
      this.timerAt = Infinity;
      inBackground(this.readDue(), () => undefined);
    });
  }

  private async readDue(): Promise<void> {
    const now = this.clock.now();
    const due = [...this.names].filter(([, { dueAt, everyMs }]) => dueAt <= now + everyMs * TOGETHER);
    this.isReading = true;
    await Promise.all(due.map(([name, watched]) => this.readOne(name, watched)));
    this.isReading = false;
    this.schedule();
  }

  private async readOne(name: string, watched: Watched): Promise<void> {
    let hasChanged = false;
    try {
      const reading = await this.read(name);
      const seen = `${reading.order} ${reading.notesRead}`;
      hasChanged = watched.seen !== seen;
      watched.seen = seen;
      if (hasChanged && this.names.get(name) === watched) this.onReading(name, reading);
    } catch {
      // The next poll tries again. Callers learn of an outage by their own requests.
    }
    const { interest, everyMs } = watched;
    watched.everyMs = hasChanged ? quickest(interest) : slower(interest, everyMs);
    watched.dueAt = this.clock.now() + watched.everyMs;
  }
}

interface Watched {
  interest: PollPriority;
  everyMs: number;
  dueAt: number;
  /** Version and notes of the last reading. */
  seen?: string;
}

function quickest(interest: PollPriority): number {
  return interest === 'held' ? HELD_POLL_MS : Math.min(FIRST_MS.least * (interest + 1), SLOWEST_MS);
}

function slower(interest: PollPriority, everyMs: number): number {
  if (interest === 'held') return HELD_POLL_MS;
  return Math.min(everyMs * FIRST_MS.growth, FIRST_MS.most * (interest + 1), SLOWEST_MS);
}
