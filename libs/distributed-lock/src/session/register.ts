// Documents on etcd and ZooKeeper, where a lock lasts no longer than the session of its client:
// docs/document-stores.md#sessions-etcd-and-zookeeper
import { type Chance, type Clock, randomMs, systemChance } from '../common/clock.js';
import { ignoreFailure } from '../common/promises.js';
import { clientsOf, firstGrantOf, isFree, type Reading } from '../document/document.js';
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
import type { StoredDocument, Messages, Session, SessionBackend } from './backend.js';
import { RememberedDocuments, SessionKnowledge } from './remembered-documents.js';
import {
  parseSessionDocument,
  serializeSessionDocument,
  parseMessage,
  serializeMessage,
  parseSessionNote,
  serializeSessionNote,
} from './json.js';

/** How many characters all messages of one write may have together, before each contains only the document's name. */
const MAX_MESSAGE_LENGTH = 128 * 1024;

const NO_CONTENT = { document: { holders: [], queue: [] }, lastToken: undefined };

/** Stores documents in etcd or ZooKeeper. An entry in a document counts only as long as the session of its owner's client lasts. */
export class SessionRegister implements Register {
  readonly initialLeaseMs = 0;
  readonly mayLoseWrites = false;
  readonly isRemote = true;
  readonly sessionUntil = (): number => this.session?.validUntil ?? -Infinity;
  readonly address?: string;
  readonly commandTimeoutMs: number;
  private readonly knowledge: SessionKnowledge;
  private readonly remembered: RememberedDocuments;
  private readonly sweeper: SessionSweeper;
  private readonly clock: Clock;
  private session: Session | undefined;
  /** The largest revision that this client has seen. The next write gets a larger one, unless somebody restores a backup. */
  private revision = 0;
  /** The revision in the last reply. Smaller than `revision` if somebody has restored a backup. */
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
    take.deadline();
    const lastToken = Math.max(this.remembered.lastTokenOf(name), this.revision);
    const { isDone, row: stored } = await this.backend.take({
      name,
      seen: this.remembered.seen(name),
      text: serializeSessionDocument(firstGrantOf(request), lastToken, session.id),
      notes: notes.map((note) => serializeSessionNote(note, session.id)),
      session,
    });
    if (isDone) return { isDone: true, reading: this.readingOf(stored, session) };
    const reading = await this.checkedReadingOf(stored, session);
    if (take.notes.length > 0) this.notifyHolders(stored, reading);
    return { isDone: false, reading };
  }

  async swap(swap: Swap): Promise<WriteReply> {
    const { name, expected, next, lastToken, failOnUnreadNotes, notified } = swap;
    const { sessionEnds } = this;
    const session = await this.sessionFor(name);
    // If the previous session has ended, its owners have lost what they held: `next` must not be written under the new session.
    if (sessionEnds !== this.sessionEnds) throw sessionEndedError(name, 'unready');
    if (this.remembered.isOld(name)) {
      const reading = await this.read(name);
      if (reading.version !== expected.version) return { isDone: false, reading };
    }
    swap.deadline();
    const text = serializeSessionDocument(next, lastToken, session.id);
    const { notesRead, notes, nextTicket } = expected;
    // The next document takes its tokens from the revision of the write that creates it, which must be larger than `lastToken`.
    // Compare with the revision of the last reply: after a backup was restored, revisions start again from a smaller number.
    const mayDelete = isFree(next) && lastToken <= this.lastReplyRevision;
    const message = { text, notesRead, notes: [], nextTicket };
    const { isDone, row: stored } = await this.backend.swap({
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
        text: (newVersion, writtenAt) =>
          serializeMessage(name, { ...message, version: newVersion, writtenAt }),
      }),
    });
    if (!isDone) return { isDone: false, reading: await this.checkedReadingOf(stored, session) };
    if (stored.text === null) this.remembered.onDeleted(name);
    return { isDone: true, reading: this.readingOf(stored, session) };
  }

  async read(name: string): Promise<Reading> {
    const session = await this.sessionFor(name);
    return this.checkedReadingOf(await this.backend.read(name), session);
  }

  /** Publishes the entry, and removes it after `leaseMs`. If this process crashes, the end of its session removes the entry. */
  async publishHolderEntry({ clientId, text, leaseMs }: HolderEntry): Promise<void> {
    const session = await this.sessionFor(undefined);
    this.cancelHolderEntry();
    this.cancelHolderEntry = this.clock.after(leaseMs, () =>
      ignoreFailure(this.backend.publishHolderEntry({ clientId, text: undefined, session })),
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
    const stored = parseMessage(text, order);
    if (!stored || !this.session) return;
    if (typeof stored === 'string') {
      const read = this.read(stored).then((reading) => this.listener?.onReading(stored, reading));
      return ignoreFailure(read);
    }
    try {
      this.listener?.onReading(stored.name, this.readingOf(stored, this.session, true));
    } catch {
      // Another version of this library has written the message. Waiters find their grants by rechecks.
    }
  }

  /** Notifies the clients of the holders that somebody waits for the key. */
  private notifyHolders(stored: StoredDocument, { document }: Reading): void {
    const clients = clientsOf(document.holders);
    if (clients.length === 0) return;
    const message = serializeMessage(stored.name, stored);
    this.backend.sendMessages(
      messagesTo(clients, message.length, { name: stored.name, text: () => message }),
    );
  }

  /** As `readingOf`, but first asks the back end which sessions in the document have ended. */
  private async checkedReadingOf(stored: StoredDocument, session: Session): Promise<Reading> {
    const { document, notes } = this.readingOf(stored, session);
    // Leave out our own session, whose end the back end reports by `onSessionEnd`.
    const unknown = this.knowledge.unknownIn(document, notes).filter((id) => id !== session.id);
    if (unknown.length > 0) {
      // If the back end does not answer, treat these sessions as alive. The next recheck asks again.
      const ended = new Set(await this.backend.endedAmong(unknown).catch(() => []));
      for (const each of unknown) this.knowledge[ended.has(each) ? 'onEnd' : 'onAlive'](each);
    }
    return this.readingOf(stored, session);
  }

  private readingOf(stored: StoredDocument, session: Session, isMessage = false): Reading {
    const { name, version } = stored;
    const revision = (this.revision = Math.max(this.revision, stored.revision));
    if (!isMessage) this.lastReplyRevision = stored.revision;
    const content =
      stored.text === null ? NO_CONTENT : parseSessionDocument(stored.text, stored.writtenAt, name);
    const { document } = content;
    const notes = stored.notes.map((note) => parseSessionNote(note, name));
    const lastToken = this.remembered.see({
      stored,
      isFree: isFree(document) && notes.length === 0,
      lastToken: content.lastToken,
      isMessage,
    });
    return {
      version,
      order: version === undefined ? stored.revision : stored.writtenAt,
      document: this.knowledge.judge(document),
      notes: notes.filter((note) => !this.knowledge.hasEnded(note)),
      notesRead: stored.notesRead,
      mayLackNotes: isMessage,
      lastToken,
      now: this.clock.now(),
      ticks: revision,
      nextTicket: stored.nextTicket ?? revision + 1,
      validUntil: session.validUntil,
    };
  }
}

function messagesTo(
  clients: readonly string[],
  length: number,
  { name, text }: Omit<Messages, 'clients'>,
): Messages {
  const isShort = clients.length * length > MAX_MESSAGE_LENGTH;
  return { name, clients, text: isShort ? () => serializeMessage(name) : text };
}

/** How long a process waits before each of its sweeps, in ms. */
const SWEEP_MS = { least: 5 * 60_000, spread: 5 * 60_000 };
/** For how long the sweeper sees a free document unchanged before it deletes it, in ms: longer than `SessionBackend.believedMs`. */
export const SWEPT_AFTER_MS = 10 * 60_000;
/** How many idle documents the sweeper remembers. `TOGETHER`: how many it reads or deletes at a time. */
const MAX_IDLE = 50_000;
const TOGETHER = 100;

/**
 * Deletes idle documents: those of free locks, and those whose holders and waiters all belong to ended sessions. Each sweep remembers
 * what is idle. A later sweep, at least ten minutes after, deletes those that are still unchanged. Only the client with the smallest
 * session id sweeps.
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

  start(chance: Chance): void {
    this.cancel = this.clock.after(randomMs(chance, SWEEP_MS), () => {
      this.start(chance);
      ignoreFailure(this.sweep());
    });
  }

  stop(): void {
    this.cancel();
  }

  /** Forgets all idle documents: after a backup was restored, earlier states of them may be back. */
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
      const stored = await this.backend.read(name);
      if (await this.isIdle(stored))
        this.idle.set(name, { writtenAt: stored.writtenAt, since: this.clock.now() });
    });
  }

  private async deleteIdle(name: string, { writtenAt }: Idle): Promise<void> {
    this.idle.delete(name);
    const stored = await this.backend.read(name);
    if (stored.writtenAt === writtenAt && (await this.isIdle(stored))) await this.backend.remove(stored);
  }

  /**
   * Whether the document may be deleted: nobody holds the lock or waits for it, and its last token is not larger than the revision,
   * from which the next document of this name takes its tokens.
   */
  private async isIdle({ name, text, writtenAt, revision, notes }: StoredDocument): Promise<boolean> {
    if (text === null || notes.length > 0) return false;
    const { document, lastToken } = parseSessionDocument(text, writtenAt, name);
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
    await Promise.all(items.slice(at, at + TOGETHER).map((item) => work(item).catch(ignoreRefused)));
}

/** Lets the sweep go on after an error of one document only, which this client may not read or another program has written. */
function ignoreRefused(error: unknown): void {
  const isOfDocument =
    error instanceof LockStoreError ? error.reason === 'refused' : error instanceof LockKeyError;
  if (!isOfDocument) throw error;
}
