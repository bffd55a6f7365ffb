import { type Clock, Delays, randomMs } from '../common/clock.js';
import { ignoreFailure, promiseOf } from '../common/promises.js';
import { checkNameBytes } from '../connection/checks.js';
import { keepAlive } from '../connection/timing.js';
import { FREE, isOver, type LockDocument, type Reading } from '../document/document.js';
import { toAsciiJson, fromAsciiJson } from '../document/json.js';
import type {
  NamePage,
  NameRequest,
  PollPriority,
  Register,
  RegisterListener,
  Swap,
  Take,
  WriteReply,
} from '../document/timed-register.js';
import { type HolderEntry, LOCK } from '../port/lock-store.js';
import { LockKeyError } from '../port/lock.errors.js';
import { HELD_POLL_MS } from '../port/timing.js';
import { SqlConnection } from './connection.js';
import { readingOf, type ScannedRow, type SqlDatabase, type SqlWriteReply } from './database.js';
import type { SqlContext } from './store.js';

/** Reads and writes documents, which are rows of one table, over one connection. */
class SqlDocuments {
  constructor(
    protected readonly connection: SqlConnection,
    protected readonly options: SqlContext,
  ) {}

  swap(swap: Swap): Promise<WriteReply> {
    return this.connection.run('swap', swap).then((reply) => writeReply(swap.name, reply));
  }

  /** Overwrites a document that was just read, bypassing its lane. Must not be used to grant a lock. */
  replace(name: string, expected: Reading, next: LockDocument): Promise<WriteReply> {
    return this.swap({
      name,
      expected,
      next,
      lastToken: expected.lastToken,
      failOnUnreadNotes: true,
      notified: [],
      mayBeForgotten: true,
      deadline: () => this.soonAfter(expected),
    });
  }

  async read(name: string): Promise<Reading> {
    checkRowName(name);
    return readingOf(name, await this.connection.run('read', { name }));
  }

  async scan(after: string, most: number) {
    const rows = await this.connection.runAlone((link) => link.scan(after, most));
    const namesOf = (flag: keyof ScannedRow) =>
      rows.filter((row) => Number(row[flag]) === 1).map(({ name }) => name);
    return {
      /** Name of the last row, after which the next scan begins. `undefined` if the table ends here. */
      last: rows.length < most ? undefined : rows.at(-1)?.name,
      held: namesOf('held'),
      free: namesOf('free'),
      unwritten: namesOf('unwritten'),
    };
  }

  deleteFree(names: readonly string[]): Promise<void> {
    return this.connection.runAlone((link) => link.deleteFree(names));
  }

  /** The deadline of a write that is sent right after this reading. */
  protected soonAfter({ now }: Reading): number {
    return Math.ceil(now + 2 * this.options.commandTimeoutMs);
  }
}

function writeReply(name: string, { isDone, row }: SqlWriteReply): WriteReply {
  return { isDone, reading: readingOf(name, row) };
}

/**
 * Stores documents as rows of one table. Polls the documents that this client depends on, unless the database sends notifications
 * of their changes.
 */
export class SqlRegister extends SqlDocuments implements Register {
  /** How long, in ms, an owner has to confirm a grant that another client wrote for it. */
  readonly initialLeaseMs = 1000;
  readonly mayLoseWrites = true;
  readonly isRemote = true;
  readonly commandTimeoutMs: number;
  protected readonly poller: Poller;
  protected listener: RegisterListener | undefined;
  private readonly sweeper: TableSweeper | undefined;
  private readonly stopKeepingAlive: () => void;

  constructor(database: SqlDatabase, options: SqlContext) {
    const onTime = (now: number, sentAt: number) => this.listener?.onTime(now, sentAt);
    super(new SqlConnection(database, options, onTime), options);
    const { clock, access, commandTimeoutMs } = options;
    this.commandTimeoutMs = commandTimeoutMs;
    this.poller = new Poller(
      clock,
      (name) => this.read(name),
      (name, reading) => this.listener?.onReading(name, reading),
    );
    if (access !== 'read') {
      const own = { ...options, address: undefined, onState: undefined };
      this.sweeper = new TableSweeper(own, () => new SqlConnection(database, own));
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

  take(take: Take): Promise<WriteReply> {
    return promiseOf(() => {
      checkLockName(take.name);
      return this.takeRow(take);
    });
  }

  /** Reads rows in order of their names, and returns the names of those documents that have a holder or a waiter. */
  async list({ prefix, after, most }: NameRequest): Promise<NamePage> {
    checkRowName(prefix);
    checkRowName(after ?? '');
    const first = after === undefined && prefix !== '' ? [prefix] : [];
    const { last, held } = await this.scan(after ?? prefix, most);
    const names = [...first, ...held].filter((name) => name.startsWith(prefix) && !isHolderEntry(name));
    return { names, after: last?.startsWith(prefix) ? last : undefined };
  }

  /**
   * Writes the holder entry as a row of the lock table. That row looks like a lock that the client holds, with the entry's text in
   * place of a nonce. An older version of this library takes it for a lock, and removes it when the lease is over.
   */
  async publishHolderEntry({ clientId, text, leaseMs }: HolderEntry): Promise<void> {
    const name = holderEntryRow(clientId);
    const owner = `${clientId}:0`;
    const expected = await this.presentRow(name, owner, leaseMs);
    const lease = { until: { inMs: leaseMs }, nonce: toAsciiJson(text) };
    const holder = { owner, claim: LOCK, token: 1, lastToken: 1, ...lease };
    await this.replace(name, expected, { holders: [holder], queue: [] });
  }

  async readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    const readings = await Promise.all(clientIds.map((id) => this.read(holderEntryRow(id))));
    return readings.map(({ document, now }) => {
      const [holder] = document.holders;
      return holder?.nonce && !isOver(holder.until, now) ? fromAsciiJson(holder.nonce) : undefined;
    });
  }

  /** Checks the store's connections, so that a dead one is replaced before a caller needs it. */
  protected checkConnections(): void {
    const checked = this.connection.runAlone((link) => link.ping());
    ignoreFailure(checked);
  }

  async close(): Promise<void> {
    this.stopKeepingAlive();
    this.sweeper?.close();
    this.poller.close();
    this.connection.close();
  }

  private takeRow(take: Take): Promise<WriteReply> {
    return this.connection.run('take', take).then((reply) => writeReply(take.name, reply));
  }

  /** Reads the row, or creates it if there is none. @returns the row */
  private async presentRow(name: string, owner: string, leaseMs: number): Promise<Reading> {
    const found = await this.read(name);
    if (found.version !== undefined) return found;
    const request = { key: name, owner, claim: LOCK, leaseMs, mayWait: false, ticket: 0, tokens: 1 };
    const deadline = (): number => this.soonAfter(found);
    return (await this.takeRow({ name, request, minToken: 0, notes: [], deadline })).reading;
  }
}

/** How long a row's name may be, in bytes. The index of each database has room for it. */
const MAX_BYTES = 2000;

/** @param name `keyPrefix` and the key together @throws LockKeyError for a name that a text column cannot store unchanged */
function checkRowName(name: string): void {
  checkNameBytes(name, MAX_BYTES, `at most ${MAX_BYTES} fit into the lock table`);
  if (name.includes('\0')) {
    throw new LockKeyError(
      `The key ${JSON.stringify(name)} has a NUL character, which no text column holds.`,
      name,
    );
  }
}

/** @throws LockKeyError for a name that no row can have, and for the name of a holder entry's row */
function checkLockName(name: string): void {
  checkRowName(name);
  if (!isHolderEntry(name)) return;
  throw new LockKeyError(
    `"${name}" is the name of a row in which a client tells who it is. Choose another key.`,
    name,
  );
}

const HOLDER_ENTRY = 'nest_lock_client:';

/** The name of the row by which other processes learn the name of a client that holds a lock. */
function holderEntryRow(clientId: string): string {
  return HOLDER_ENTRY + clientId;
}

function isHolderEntry(name: string): boolean {
  return name.startsWith(HOLDER_ENTRY);
}

/** How long a process waits before each of its sweeps, at random, in ms. */
const SWEEP_MS = { least: 5 * 60_000, spread: 5 * 60_000 };
/** If all leases and tickets in a document ended this long ago, in ms, its owners have crashed, and the sweeper frees it. */
const ABANDONED_MS = 60 * 60_000;
/** How many rows the sweeper reads at a time. Halved when a read or delete fails, as on a slow disk, and doubled when one succeeds. */
const SLICE_ROWS = { most: 1000, least: 10 };
/** If a sweep could delete less than this share of the rows, the wait before the next sweep doubles, up to `MAX_PATIENCE` times. */
const LITTLE = 0.1;
const MAX_PATIENCE = 8;

/**
 * Keeps the table small: frees documents of crashed processes, and deletes rows that have been free for long.
 *
 * A sweep reads the table in order of names, one slice at a time. After each slice it rests for as long as the slice took. It
 * opens a connection of its own, so that a slow slice does not delay the requests of callers.
 */
class TableSweeper {
  private readonly delays: Delays;
  private cancel = (): void => undefined;
  private connection: SqlConnection | undefined;
  private isClosed = false;
  /** The name after which the next slice begins. If a sweep fails, the next one continues here. */
  private after = '';
  private rows = SLICE_ROWS.most;
  private patience = 1;

  /** @param open opens a connection for one sweep */
  constructor(
    private readonly context: SqlContext,
    private readonly open: () => SqlConnection,
  ) {
    this.delays = new Delays(context.clock);
    this.schedule();
  }

  close(): void {
    this.isClosed = true;
    this.cancel();
    this.delays.endAll();
    this.connection?.close();
  }

  private schedule(): void {
    if (this.isClosed) return;
    const { clock, chance } = this.context;
    // If a sweep fails, wait for the next one, which does the same work.
    this.cancel = clock.after(randomMs(chance, SWEEP_MS) * this.patience, () => {
      const swept = this.run().finally(() => this.schedule());
      ignoreFailure(swept);
    });
  }

  private async run(): Promise<void> {
    const connection = (this.connection = this.open());
    try {
      await this.sweep(new SqlDocuments(connection, this.context));
    } finally {
      connection.close();
    }
  }

  private async sweep(documents: SqlDocuments): Promise<void> {
    const seen = { rows: 0, free: 0 };
    do {
      const startedAt = this.context.clock.now();
      await this.sweepSlice(documents, seen);
      // Rest for at least one turn of the event loop, because SQLite blocks the loop while it reads.
      await this.delays.wait(Math.max(1, this.context.clock.now() - startedAt));
    } while (this.after !== '' && !this.isClosed);
    const foundLittle = seen.rows > SLICE_ROWS.most && seen.free < seen.rows * LITTLE;
    this.patience = foundLittle ? Math.min(2 * this.patience, MAX_PATIENCE) : 1;
  }

  private async sweepSlice(documents: SqlDocuments, seen: { rows: number; free: number }): Promise<void> {
    const most = this.rows;
    this.rows = Math.max(Math.floor(most / 2), SLICE_ROWS.least);
    const { last = '', free, unwritten } = await documents.scan(this.after, most);
    this.after = last;
    seen.rows += most;
    seen.free += free.length;
    await Promise.allSettled(unwritten.map((name) => this.freeAbandoned(documents, name)));
    // The delete fails if another transaction has one of the rows locked. Go on with the next slice all the same.
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
  const { holders, queue } = document;
  const isEveryoneGone = [...holders, ...queue].every(({ until }) => isOver(until, limit));
  return isEveryoneGone && notes.every(({ at }) => at / 1000 <= limit);
}

function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}

/**
 * The interval at which the document of a waiter is polled, in ms. After each change it is `least`, and then grows by the factor
 * `growth` up to `most`. For the k-th waiter in the queue both are k times as long, but never longer than `SLOWEST_MS`.
 */
const FIRST_MS = { least: 2, most: 25, growth: 1.3 };
const SLOWEST_MS = 250;
/** A document is polled together with those that are due if less than this share of its own interval is left. */
const TOGETHER = 0.25;

/**
 * Polls the documents that this client depends on, for databases that send no notifications. One statement reads all documents
 * that are due. At most one such statement is in flight.
 */
class Poller {
  private readonly names = new Map<string, Watched>();
  private isActive = true;
  private isReading = false;
  private cancel = (): void => undefined;
  private timerAt = Infinity;

  /** @param onReading called with each document that has changed */
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

  /** Turns polling on or off. It is off while notifications arrive. */
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
    this.cancel();
    this.timerAt = next;
    if (next === Infinity) return;
    this.cancel = this.clock.after(Math.max(0, next - this.clock.now()), () => {
      this.timerAt = Infinity;
      ignoreFailure(this.readDue());
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
      // Ignore the error: the next poll tries again, and callers learn of an outage from their own requests.
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
  /** Order and notes of the last reading. If they differ in the next one, the document has changed. */
  seen?: string;
}

function quickest(interest: PollPriority): number {
  return interest === 'held' ? HELD_POLL_MS : Math.min(FIRST_MS.least * (interest + 1), SLOWEST_MS);
}

function slower(interest: PollPriority, everyMs: number): number {
  if (interest === 'held') return HELD_POLL_MS;
  return Math.min(everyMs * FIRST_MS.growth, FIRST_MS.most * (interest + 1), SLOWEST_MS);
}
