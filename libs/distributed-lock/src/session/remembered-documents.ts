import type { Clock } from '../common/clock.js';
import {
  type Holder,
  type LockDocument,
  type StoredNote,
  type StoredWaiter,
  UNCONFIRMED_MS,
} from '../document/document.js';
import type { DocumentRow, SeenDocument } from './backend.js';

/**
 * What this client remembers of documents for its next take and swap:
 *
 * - The version of a free document, so that a take can replace the document without reading it first.
 * - The last token, so that tokens grow even if somebody deletes the document by hand, and another client, which does not know
 *   its last token, creates it anew.
 */
export class RememberedDocuments {
  private readonly documents = new Map<string, RememberedDocument>();

  /** @param believedMs as in `SessionBackend` */
  constructor(
    private readonly clock: Clock,
    private readonly believedMs = Infinity,
  ) {}

  /** The document as it was seen last; `undefined` if that was too long ago to rely on its version. */
  seen(name: string): SeenDocument | undefined {
    return this.isOld(name) ? undefined : this.documents.get(name);
  }

  lastTokenOf(name: string): number {
    const { lastToken = 0, earlierToken = 0 } = this.documents.get(name) ?? {};
    return Math.max(lastToken, earlierToken);
  }

  /** Whether the document was read too long ago to rely on its version. */
  isOld(name: string): boolean {
    const found = this.documents.get(name);
    return found !== undefined && found.since <= this.now() - this.believedMs;
  }

  /** Remembers a document that was read, written or received in a message. @returns the last token that this client knows of */
  see({ row, isFree, lastToken, isMessage = false }: Reading): number {
    const { name, version, notesRead, nextTicket, writtenAt, createdAt = 0 } = row;
    const known = this.documents.get(name);
    // Compare revisions and not versions, because a document that was deleted and created anew may have the version of an older
    // one.
    if (isMessage && writtenAt < (known?.writtenAt ?? 0)) return this.lastTokenOf(name);
    const isSame = lastToken !== undefined && createdAt <= (known?.writtenAt ?? Infinity);
    const { earlierToken = 0 } = known ?? {};
    const seen = {
      version,
      isFree,
      notesRead,
      nextTicket,
      lastToken: lastToken ?? 0,
      earlierToken: isSame ? earlierToken : Math.max(earlierToken, known?.lastToken ?? 0),
      writtenAt,
      since: isMessage ? (known?.since ?? -Number.MAX_VALUE) : this.now(),
    };
    this.documents.delete(name);
    this.documents.set(name, seen);
    forgetOldest(this.documents);
    return this.lastTokenOf(name);
  }

  /**
   * Forgets a document that this client has deleted. It deletes only a document whose tokens are no larger than the revision, and
   * the tokens of a new document are larger than that.
   */
  onDeleted(name: string): void {
    this.documents.delete(name);
  }

  /**
   * Stops relying on all versions. The session may be over because a backup was restored. Versions then count on from an earlier
   * one and may come again, so each document must be read before it is replaced.
   */
  onSessionEnd(): void {
    for (const [name, document] of this.documents)
      this.documents.set(name, { ...document, since: -Infinity });
  }

  /** Our time; 0 where a version is never used again, because it does not matter there when a document was seen. */
  private now(): number {
    return this.believedMs === Infinity ? 0 : this.clock.now();
  }
}

interface RememberedDocument extends SeenDocument {
  readonly lastToken: number;
  /** The last token of an earlier document of this name, which somebody deleted by hand. */
  readonly earlierToken: number;
  /** The revision of the write that wrote the document. */
  readonly writtenAt: number;
  /** When this client read the document, by our clock. */
  readonly since: number;
}

interface Reading {
  readonly row: DocumentRow;
  /** Whether the lock has no holder, no waiter and no note. */
  readonly isFree: boolean;
  /** `undefined` for a document that does not exist. */
  readonly lastToken: number | undefined;
  /** The row came in a message, which may have been on its way for long. */
  readonly isMessage?: boolean;
}

/** How long, in ms, a session that was found alive counts as alive. After that the client asks the back end again. */
export const ALIVE_MS = 1000;
/**
 * The most entries of each map here: sessions, unconfirmed grants, documents. The oldest are forgotten, and learned anew when
 * they are needed.
 */
const MAX_REMEMBERED_SESSIONS = 10_000;

/**
 * What this client knows of sessions and grants: which sessions are over, and since when it has seen each grant that its owner
 * has not confirmed.
 */
export class SessionKnowledge {
  private readonly ended = new Set<string>();
  private readonly aliveAt = new Map<string, number>();
  /** Grants that their owners have not confirmed yet, by owner id. */
  private readonly unconfirmed = new Map<string, SeenGrant>();

  constructor(private readonly clock: Clock) {}

  onEnd(session: string): void {
    this.ended.add(session);
    this.aliveAt.delete(session);
    forgetOldest(this.ended);
  }

  onAlive(session: string): void {
    this.aliveAt.delete(session);
    this.aliveAt.set(session, this.clock.now());
    forgetOldest(this.aliveAt);
  }

  /** The sessions in a document of which this client does not know, or no longer knows, whether they are over. */
  unknownIn({ holders, queue }: LockDocument, notes: readonly StoredNote[]): readonly string[] {
    const since = this.clock.now() - ALIVE_MS;
    const sessions = [...holders, ...queue, ...notes].flatMap(({ session }) => session ?? []);
    return [...new Set(sessions)].filter(
      (session) => !this.ended.has(session) && (this.aliveAt.get(session) ?? -Infinity) <= since,
    );
  }

  /** The document with what this client knows: entries of ended sessions, and grants that were not confirmed in time, have expired. */
  judge({ holders, queue }: LockDocument): LockDocument {
    return {
      holders: holders.map((holder) => this.judgeHolder(holder)),
      queue: queue.map((waiter) => (this.hasEnded(waiter) ? { ...waiter, until: -Infinity } : waiter)),
    };
  }

  hasEnded({ session }: Pick<StoredWaiter, 'session'>): boolean {
    return session !== undefined && this.ended.has(session);
  }

  /**
   * Makes the holder expire if its session is over, or if it has not confirmed its grant in time. Until then its lease is the
   * time that is left to confirm, so that waiters recheck at the end of that.
   */
  private judgeHolder(holder: Holder): Holder {
    if (this.hasEnded(holder)) return { ...holder, until: -Infinity };
    if (!holder.isUnconfirmed) {
      this.unconfirmed.delete(holder.owner);
      return holder;
    }
    const leftMs = this.sinceOf(holder) + UNCONFIRMED_MS - this.clock.now();
    return leftMs > 0 ? { ...holder, leaseMs: Math.ceil(leftMs) } : { ...holder, until: -Infinity };
  }

  /** Since when this client has seen the grant. Compares tokens: an owner whose grant was taken back may be granted the lock again. */
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
function forgetOldest(entries: Map<string, unknown> | Set<string>): void {
  if (entries.size <= MAX_REMEMBERED_SESSIONS) return;
  const [oldest] = entries.keys();
  if (oldest !== undefined) entries.delete(oldest);
}
