// Documents on etcd and ZooKeeper, where a lock lasts no longer than the session of its client:
// docs/document-stores.md#sessions-etcd-and-zookeeper
import { type Chance, type Clock, randomMs, systemChance } from '../common/clock.js';
import { inBackground } from '../common/promises.js';
import { clientsOf, isFree, type Reading } from '../document/document.js';
import type { LeaseClient, Leases } from '../document/timed-register.js';
import {
  type NamePage,
  type NameRequest,
  type Register,
  type RegisterListener,
  sessionEndedError,
  type Swap,
  type Take,
  type WriteReply,
} from '../document/timed-register.js';
import type { HolderEntry, LockStoreContext } from '../port/lock-store.js';
import { LockKeyError, LockStoreError } from '../port/lock.errors.js';
import type { DocumentRow, Messages, Session, SessionBackend } from './backend.js';
import { SessionLeases } from './leases.js';
import { RememberedDocuments, SessionKnowledge } from './remembered-documents.js';
import {
  contentOf,
  documentTextUnder,
  messageIn,
  messageText,
  noteIn,
  noteTextUnder,
  shortMessageText,
  takenTextUnder,
} from './text.js';

/** The most characters in all messages of one write together. If they are longer, each message only names the document. */
const MAX_MESSAGE_LENGTH = 128 * 1024;

const NO_CONTENT = { document: { holders: [], queue: [] }, lastToken: undefined };

/** Documents in a coordination service. An entry in a document counts no longer than the session of its owner's client lasts. */
export class SessionRegister implements Register {
  readonly initialLeaseMs = 0;
  readonly mayLoseWrites = false;
  readonly isRemote = true;
  readonly address?: string;
  readonly commandTimeoutMs: number;
  private readonly knowledge: SessionKnowledge;
  private readonly remembered: RememberedDocuments;
  private readonly sweeper: SessionSweeper;
  private readonly clock: Clock;
  private session: Session | undefined;
  /** The newest revision that this client has seen. The next write gets a larger one, unless a backup was restored. */
  private revision = 0;
  /** The revision of the last reply. It is smaller than `revision` after a backup was restored. */
  private lastReplyRevision = 0;
  private listener: RegisterListener | undefined;
  private sessionEnds = 0;
  private cancelHolderEntry = (): void => undefined;

  constructor(
    private readonly backend: SessionBackend,
    { clock, chance = systemChance }: Pick<LockStoreContext, 'clock' | 'chance'>,
  ) {
    const { address, commandTimeoutMs, believedMs } = backend;
    if (address !== undefined) this.address = address;
    this.commandTimeoutMs = commandTimeoutMs;
    this.clock = clock;
    this.knowledge = new SessionKnowledge(clock);
    this.remembered = new RememberedDocuments(clock, believedMs);
    this.sweeper = new SessionSweeper(backend, clock, () => this.session?.id);
    this.sweeper.start(chance);
  }

  listen(listener: RegisterListener): void {
    this.listener = listener;
    this.backend.listen({
      onMessage: (text, order) => this.onMessage(text, order),
      onGap: () => listener.onGap(),
      onSessionEnd: ({ id }) => {
        this.sessionEnds += 1;
        this.knowledge.onEnd(id);
        this.remembered.onSessionEnd();
        this.sweeper.forget();
        listener.onSessionEnd?.();
      },
    });
  }

  async take(take: Take): Promise<WriteReply> {
    const { name, request, notes } = take;
    const session = await this.sessionFor(name);
    take.notAfter();
    const lastToken = Math.max(this.remembered.lastTokenOf(name), this.revision);
    const { isDone, row } = await this.backend.take({
      name,
      seen: this.remembered.seen(name),
      text: takenTextUnder(request, lastToken, session.id),
      notes: notes.map((note) => noteTextUnder(note, session.id)),
      session,
    });
    if (isDone) return { isDone: true, reading: this.readingOf(row, session) };
    const reading = await this.knownReadingOf(row, session);
    if (take.notes.length > 0) this.tellHolders(row, reading);
    return { isDone: false, reading };
  }

  async swap(swap: Swap): Promise<WriteReply> {
    const { name, expected, next, lastToken, failOnUnreadNotes, notified } = swap;
    const { sessionEnds } = this;
    const session = await this.sessionFor(name);
    // What was held under the last session is lost. Do not write it as held under the new one.
    if (sessionEnds !== this.sessionEnds) throw sessionEndedError(name, 'unready');
    if (this.remembered.isOld(name)) {
      const reading = await this.read(name);
      if (reading.version !== expected.version) return { isDone: false, reading };
    }
    swap.notAfter();
    const text = documentTextUnder(next, lastToken, session.id);
    const { notesRead, notes, nextTicket } = expected;
    // A document that is created anew takes its tokens from the revision of that write, which must therefore be larger than
    // `lastToken`. Compare with a revision that the back end has now: after a restore, it may be long before it reaches those
    // that it had before.
    const mayDelete = isFree(next) && lastToken <= this.lastReplyRevision;
    const message = { name, text, notesRead, notes: [], nextTicket };
    const { isDone, row } = await this.backend.swap({
      name,
      version: expected.version,
      text,
      mayDelete,
      session,
      failOnUnreadNotes,
      notesRead,
      nextTicket,
      mergedNotes: notes.flatMap(({ id }) => id ?? []),
      messages: messagesTo(notified, text.length, {
        name,
        text: (newVersion, writtenAt) => messageText({ ...message, version: newVersion, writtenAt }),
      }),
    });
    if (!isDone) return { isDone: false, reading: await this.knownReadingOf(row, session) };
    if (row.text === null) this.remembered.onDeleted(name);
    return { isDone: true, reading: this.readingOf(row, session) };
  }

  async read(name: string): Promise<Reading> {
    const session = await this.sessionFor(name);
    return this.knownReadingOf(await this.backend.read(name), session);
  }

  leasesOf(client: LeaseClient): Leases {
    return new SessionLeases(client, () => this.session?.validUntil ?? -Infinity);
  }

  /** Publishes the entry, and removes it by a timer after `leaseMs`. If this client crashes, the end of its session removes it. */
  async publishHolderEntry({ clientId, text, leaseMs }: HolderEntry): Promise<void> {
    const session = await this.sessionFor(undefined);
    this.cancelHolderEntry();
    this.cancelHolderEntry = this.clock.after(leaseMs, () =>
      inBackground(this.backend.publishHolderEntry({ clientId, text: undefined, session }), () => undefined),
    );
    await this.backend.publishHolderEntry({ clientId, text, session });
  }

  async readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    await this.sessionFor(undefined);
    return this.backend.readHolderEntries(clientIds);
  }

  async list(request: NameRequest): Promise<NamePage> {
    await this.sessionFor(undefined);
    return this.backend.list(request);
  }

  close(hasEntries: boolean): Promise<void> {
    this.cancelHolderEntry();
    this.sweeper.stop();
    return this.backend.close(hasEntries);
  }

  private async sessionFor(name: string | undefined): Promise<Session> {
    const session = await this.backend.session(name);
    this.knowledge.onAlive(session.id);
    return (this.session = session);
  }

  private onMessage(text: string, order: number): void {
    const row = messageIn(text, order);
    if (!row || !this.session) return;
    if (typeof row === 'string') {
      const told = this.read(row).then((reading) => this.listener?.onReading(row, reading));
      return inBackground(told, () => undefined);
    }
    try {
      this.listener?.onReading(row.name, this.readingOf(row, this.session, true));
    } catch {
      // This release has not written the text. Ignore it.
    }
  }

  /** Notifies the clients of the holders that others wait for the key. */
  private tellHolders(row: DocumentRow, { document }: Reading): void {
    const clients = clientsOf(document.holders);
    if (clients.length === 0) return;
    const message = messageText(row);
    this.backend.tell(messagesTo(clients, message.length, { name: row.name, text: () => message }));
  }

  /**
   * Makes a reading of a row. First asks the back end about those sessions in the row of which this client does not know whether
   * they are over.
   */
  private async knownReadingOf(row: DocumentRow, session: Session): Promise<Reading> {
    const { document, notes } = this.readingOf(row, session);
    // Leave out our own session: the back end tells this client when it ends.
    const unknown = this.knowledge.unknownIn(document, notes).filter((id) => id !== session.id);
    if (unknown.length > 0) {
      // If the back end does not answer, the sessions count as alive, and the next recheck asks again.
      const ended = new Set(await this.backend.endedAmong(unknown).catch(() => []));
      for (const each of unknown) this.knowledge[ended.has(each) ? 'onEnd' : 'onAlive'](each);
    }
    return this.readingOf(row, session);
  }

  private readingOf(row: DocumentRow, session: Session, isMessage = false): Reading {
    const { name, version } = row;
    const revision = (this.revision = Math.max(this.revision, row.revision));
    if (!isMessage) this.lastReplyRevision = row.revision;
    const content = row.text === null ? NO_CONTENT : contentOf(row.text, row.writtenAt, name);
    const { document } = content;
    const notes = row.notes.map((note) => noteIn(note, name));
    const lastToken = this.remembered.see({
      row,
      isFree: isFree(document) && notes.length === 0,
      lastToken: content.lastToken,
      isMessage,
    });
    return {
      version,
      order: version === undefined ? row.revision : row.writtenAt,
      document: this.knowledge.judge(document),
      notes: notes.filter((note) => !this.knowledge.hasEnded(note)),
      notesRead: row.notesRead,
      mayLackNotes: isMessage,
      lastToken,
      now: this.clock.now(),
      ticks: revision,
      nextTicket: row.nextTicket ?? revision + 1,
      validUntil: session.validUntil,
    };
  }
}

/** Makes a message for each client: the document, or only its name if all copies together are too long for one write. */
function messagesTo(
  clients: readonly string[],
  length: number,
  { name, text }: Omit<Messages, 'clients'>,
): Messages {
  const isShort = clients.length * length > MAX_MESSAGE_LENGTH;
  return { name, clients, text: isShort ? () => shortMessageText(name) : text };
}

/** How long a process waits before each of its sweeps, at random, in ms. */
const SWEEP_MS = { least: 5 * 60_000, spread: 5 * 60_000 };
/**
 * The sweeper deletes a document that nobody holds or waits for after it has seen it unchanged for this long, in ms. By then no
 * client relies on its version any more (`SessionBackend.believedMs`).
 */
export const SWEPT_AFTER_MS = 10 * 60_000;
/** How many documents the sweeper remembers as idle, and how many it reads or deletes at a time. */
const MAX_IDLE = 50_000;
const TOGETHER = 100;

/**
 * Deletes documents that nobody holds or waits for: free ones, and those whose sessions are all over. It deletes a document that
 * this process has found unchanged twice, at least ten minutes apart by its own clock.
 *
 * Only the client with the least session id sweeps. The other clients read that id and do nothing else.
 */
export class SessionSweeper {
  private readonly idle = new Map<string, Idle>();
  /** The name after which the next sweep begins; `undefined` for the first name. */
  private after: string | undefined;
  private cancel = (): void => undefined;

  /** @param ownSession returns the id of this client's session, if it has one */
  constructor(
    private readonly backend: SweptBackend,
    private readonly clock: Clock,
    private readonly ownSession: () => string | undefined,
  ) {}

  /** Sweeps from now on, from time to time. A sweep that fails is not repeated, because the next one does the same work. */
  start(chance: Chance): void {
    this.cancel = this.clock.after(randomMs(chance, SWEEP_MS), () => {
      this.start(chance);
      inBackground(this.sweep(), () => undefined);
    });
  }

  stop(): void {
    this.cancel();
  }

  /** Forgets which documents were idle: a restore of the back end may have brought an earlier state of them back. */
  forget(): void {
    this.idle.clear();
  }

  async sweep(): Promise<void> {
    const own = this.ownSession();
    if (own === undefined || (await this.backend.firstSession()) !== own) return this.forget();
    const due = [...this.idle].filter(([, { since }]) => since <= this.clock.now() - SWEPT_AFTER_MS);
    await inParts(due, ([name, idle]) => this.deleteIdle(name, idle));
    const { names, after } = await this.backend.list({ prefix: '', after: this.after, most: MAX_IDLE });
    this.after = after;
    const fresh = names.filter((name) => !this.idle.has(name));
    await inParts(fresh.slice(0, MAX_IDLE - this.idle.size), async (name) => {
      const row = await this.backend.read(name);
      if (await this.isIdle(row)) this.idle.set(name, { writtenAt: row.writtenAt, since: this.clock.now() });
    });
  }

  private async deleteIdle(name: string, { writtenAt }: Idle): Promise<void> {
    this.idle.delete(name);
    const row = await this.backend.read(name);
    if (row.writtenAt === writtenAt && (await this.isIdle(row))) await this.backend.remove(row);
  }

  /**
   * Whether nobody holds the lock or waits for it, and its document may be deleted. A document that is created anew takes its
   * tokens from the next revision, so one with a larger last token must stay.
   */
  private async isIdle({ name, text, writtenAt, revision, notes }: DocumentRow): Promise<boolean> {
    if (text === null || notes.length > 0) return false;
    const { document, lastToken } = contentOf(text, writtenAt, name);
    if (lastToken > revision) return false;
    const entries = [...document.holders, ...document.queue];
    const sessions = [...new Set(entries.flatMap(({ session }) => session ?? []))];
    return sessions.length === 0 || (await this.backend.endedAmong(sessions)).length === sessions.length;
  }
}

type SweptBackend = Pick<SessionBackend, 'firstSession' | 'list' | 'read' | 'endedAmong' | 'remove'>;

interface Idle {
  /** The revision that wrote the document. */
  readonly writtenAt: number;
  /** When the sweeper first saw this state, by our clock. */
  readonly since: number;
}

async function inParts<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += TOGETHER)
    await Promise.all(items.slice(at, at + TOGETHER).map((item) => work(item).catch(passOver)));
}

/**
 * Lets the sweep go on after an error about one document: this client may not read it, or another program has written it.
 *
 * @throws any other error
 */
function passOver(error: unknown): void {
  const isOfDocument =
    error instanceof LockStoreError ? error.reason === 'refused' : error instanceof LockKeyError;
  if (!isOfDocument) throw error;
}
