import type { Clock } from '../common/clock.js';
import {
  type Holder,
  type LockDocument,
  type StoredNote,
  type StoredWaiter,
  UNCONFIRMED_MS,
} from '../document/document.js';
import type { SessionTake, StoredDocument } from './backend.js';

/**
 * Remembers two things of each document. Its version: a take can then overwrite a free document without reading it first. And its
 * last token: tokens must grow even if somebody deletes the document by hand and another client creates it anew.
 */
export class RememberedDocuments {
  private readonly documents = new Map<string, RememberedDocument>();

  /** @param believedMs as in `SessionBackend` */
  constructor(
    private readonly clock: Clock,
    private readonly believedMs = Infinity,
  ) {}

  /** The document as this client saw it last, unless another document may have its version by now. */
  seen(name: string): SessionTake['seen'] {
    return this.isOld(name) ? undefined : this.documents.get(name);
  }

  lastTokenOf(name: string): number {
    const { lastToken = 0, earlierToken = 0 } = this.documents.get(name) ?? {};
    return Math.max(lastToken, earlierToken);
  }

  /** Whether this client saw the document so long ago that another document may have the same version by now. */
  isOld(name: string): boolean {
    const found = this.documents.get(name);
    return found !== undefined && found.since <= this.now() - this.believedMs;
  }

  /** Remembers a document. @returns the largest token that this client knows of the key */
  see({ stored, isFree, lastToken, isMessage = false }: SeenReading): number {
    const { name, version, notesRead, nextTicket, writtenAt, createdAt = 0 } = stored;
    const earlier = this.documents.get(name);
    // Ignore a message that is older than what we know. Compare revisions: the version is smaller again after a document was
    // deleted and created anew.
    if (isMessage && writtenAt < (earlier?.writtenAt ?? 0)) return this.lastTokenOf(name);
    const isSame = lastToken !== undefined && createdAt <= (earlier?.writtenAt ?? Infinity);
    const { earlierToken = 0 } = earlier ?? {};
    const seen = {
      version,
      isFree,
      notesRead,
      nextTicket,
      lastToken: lastToken ?? 0,
      earlierToken: isSame ? earlierToken : Math.max(earlierToken, earlier?.lastToken ?? 0),
      writtenAt,
      since: isMessage ? (earlier?.since ?? -Number.MAX_VALUE) : this.now(),
    };
    this.documents.delete(name);
    this.documents.set(name, seen);
    forgetOldest(this.documents);
    return this.lastTokenOf(name);
  }

  /** Forgets also the last token, because a client deletes a document only if the tokens of the next one will be larger. */
  onDeleted(name: string): void {
    this.documents.delete(name);
  }

  /** Stops relying on all versions: the session may have ended because somebody restored a backup, so that versions repeat. */
  onSessionEnd(): void {
    for (const [name, document] of this.documents)
      this.documents.set(name, { ...document, since: -Infinity });
  }

  /** Our clock, or 0 where versions never repeat, because the age of a reading does not matter there. */
  private now(): number {
    return this.believedMs === Infinity ? 0 : this.clock.now();
  }
}

interface RememberedDocument extends NonNullable<SessionTake['seen']> {
  readonly lastToken: number;
  /** The last token of an earlier document of this name, which somebody has deleted by hand. */
  readonly earlierToken: number;
  /** The revision of the write that wrote the document. */
  readonly writtenAt: number;
  /** When this client read the document, by our clock. */
  readonly since: number;
}

interface SeenReading {
  readonly stored: StoredDocument;
  /** Nobody holds the lock or waits for it, and there is no note. */
  readonly isFree: boolean;
  /** The last token in the document; `undefined` if there is no document. */
  readonly lastToken: number | undefined;
  /** The document came in a message, which may have travelled for long. */
  readonly isMessage?: boolean;
}

/** For how long, in ms, a client believes what it has found out about a session. Then it asks again. */
export const SESSION_KNOWN_MS = 1000;
/** How many entries each map in this file may have. The oldest are forgotten. */
const MAX_REMEMBERED = 10_000;

/** Knows which sessions have ended, and when this client first saw each grant that its owner has not confirmed yet. */
export class SessionKnowledge {
  /** An ended session may live again if somebody restores a backup, so this is not believed for ever either. */
  private readonly sessions = new Map<string, { readonly hasEnded: boolean; readonly at: number }>();
  /** By owner id, the grants that their owners have not confirmed yet. */
  private readonly unconfirmed = new Map<string, SeenGrant>();

  constructor(private readonly clock: Clock) {}

  onEnd(session: string): void {
    this.remember(session, true);
  }

  onAlive(session: string): void {
    this.remember(session, false);
  }

  private remember(session: string, hasEnded: boolean): void {
    this.sessions.delete(session);
    this.sessions.set(session, { hasEnded, at: this.clock.now() });
    forgetOldest(this.sessions);
  }

  /** The sessions in a document of which this client must ask whether they still exist. */
  unknownIn({ holders, queue }: LockDocument, notes: readonly StoredNote[]): readonly string[] {
    const since = this.clock.now() - SESSION_KNOWN_MS;
    const sessions = [...holders, ...queue, ...notes].flatMap(({ session }) => session ?? []);
    return [...new Set(sessions)].filter((session) => (this.sessions.get(session)?.at ?? -Infinity) <= since);
  }

  /** Makes entries expire whose session has ended, or whose owner has not confirmed its grant in time. */
  judge({ holders, queue }: LockDocument): LockDocument {
    return {
      holders: holders.map((holder) => this.judgeHolder(holder)),
      queue: queue.map((waiter) => (this.hasEnded(waiter) ? { ...waiter, until: -Infinity } : waiter)),
    };
  }

  hasEnded({ session }: Pick<StoredWaiter, 'session'>): boolean {
    return session !== undefined && this.sessions.get(session)?.hasEnded === true;
  }

  /** While an owner has not confirmed its grant, sets its lease to the time left for confirming, so that waiters recheck then. */
  private judgeHolder(holder: Holder): Holder {
    if (this.hasEnded(holder)) return { ...holder, until: -Infinity };
    if (!holder.isUnconfirmed) {
      this.unconfirmed.delete(holder.owner);
      return holder;
    }
    const leftMs = this.sinceOf(holder) + UNCONFIRMED_MS - this.clock.now();
    return leftMs > 0 ? { ...holder, leaseMs: Math.ceil(leftMs) } : { ...holder, until: -Infinity };
  }

  /** When this client first saw this grant. An owner may be granted the lock several times, under different tokens. */
  private sinceOf({ owner, token }: Holder): number {
    const seen = this.unconfirmed.get(owner);
    if (seen?.token === token) return seen.since;
    const since = this.clock.now();
    this.unconfirmed.delete(owner);
    this.unconfirmed.set(owner, { token, since });
    forgetOldest(this.unconfirmed);
    return since;
  }
}

interface SeenGrant {
  readonly token: number;
  readonly since: number;
}

/** Deletes the entry that was set first, if there are too many. */
function forgetOldest(entries: Map<string, unknown>): void {
  if (entries.size <= MAX_REMEMBERED) return;
  const [oldest] = entries.keys();
  if (oldest !== undefined) entries.delete(oldest);
}
