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
 * The facts about documents that this client remembers for its next take and swap.
 *
 * - The version of a free document. A take replaces the document without reading it first.
 * - The last token. Tokens grow even if somebody deletes the document by hand and another client, which does not know its last
 *   token, makes it anew.
 */
export class RememberedDocuments {
  private readonly documents = new Map<string, RememberedDocument>();

  /** @param believedMs as in `SessionBackend` */
  constructor(
    private readonly clock: Clock,
    private readonly believedMs = Infinity,
  ) {}

  /** The document as it was seen last, if that may still be so. */
  seen(name: string): SeenDocument | undefined {
    return this.isOld(name) ? undefined : this.documents.get(name);
  }

  lastTokenOf(name: string): number {
    const { lastToken = 0, earlierToken = 0 } = this.documents.get(name) ?? {};
    return Math.max(lastToken, earlierToken);
  }

  /** True if the document was read too long ago for its version to be believed. */
  isOld(name: string): boolean {
    const found = this.documents.get(name);
    return found !== undefined && found.since <= this.now() - this.believedMs;
  }

  /** @returns the last token that this client knows of */
  see({ row, isFree, lastToken, isMessage = false }: Reading): number {
    const { name, version, notesRead, nextTicket, writtenAt, createdAt = 0 } = row;
    const known = this.documents.get(name);
    // Compares revisions, because a document that was deleted and made anew may have the version of an older one.
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

  /** This client has deleted the document. It does so only if no token was larger than the revision. */
  onDeleted(name: string): void {
    this.documents.delete(name);
  }

  /**
   * The session is over, maybe because a backup was restored. Versions then count on from an earlier one and may come again, so
   * each document is read before it is replaced.
   */
  onSessionEnd(): void {
    for (const [name, document] of this.documents)
      this.documents.set(name, { ...document, since: -Infinity });
  }

  /** The time of this client; 0 where a version is believed for ever, because it is never used again. */
  private now(): number {
    return this.believedMs === Infinity ? 0 : this.clock.now();
  }
}

interface RememberedDocument extends SeenDocument {
  readonly lastToken: number;
  /** The last token of a document of this name that somebody has deleted by hand. */
  readonly earlierToken: number;
  /** The revision of the write that wrote it. */
  readonly writtenAt: number;
  /** Our time of the reading. */
  readonly since: number;
}

interface Reading {
  readonly row: DocumentRow;
  /** The lock has no holder, no waiter and no note. */
  readonly isFree: boolean;
  /** `undefined` for a document that does not exist. */
  readonly lastToken: number | undefined;
  /** The row is a message, which may have been under way for long. */
  readonly isMessage?: boolean;
}

/** How long, in ms, a session that was alive counts as alive before the client asks again. */
export const ALIVE_MS = 1000;
/** How many sessions, grants and documents are remembered, each. The client asks again for those that it has forgotten. */
const MAX_REMEMBERED_SESSIONS = 10_000;

/** Which sessions are over, and since when this client has seen a grant that its owner has not confirmed. */
export class SessionKnowledge {
  private readonly ended = new Set<string>();
  private readonly aliveAt = new Map<string, number>();
  /** The grants that their owners have not confirmed yet, by owner. */
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

  /** The sessions in a document of which this client does not know whether they are over. */
  unknownIn({ holders, queue }: LockDocument, notes: readonly StoredNote[]): readonly string[] {
    const since = this.clock.now() - ALIVE_MS;
    const sessions = [...holders, ...queue, ...notes].flatMap(({ session }) => session ?? []);
    return [...new Set(sessions)].filter(
      (session) => !this.ended.has(session) && (this.aliveAt.get(session) ?? -Infinity) <= since,
    );
  }

  /** The document as this client judges it: entries of sessions that are over have expired. */
  judge({ holders, queue }: LockDocument): LockDocument {
    return {
      holders: holders.map((holder) => this.judgeHolder(holder)),
      queue: queue.map((waiter) => (this.hasEnded(waiter) ? { ...waiter, until: -Infinity } : waiter)),
    };
  }

  hasEnded({ session }: Pick<StoredWaiter, 'session'>): boolean {
    return session !== undefined && this.ended.has(session);
  }

  /** The lease of an unconfirmed grant is the time left to confirm it, so that the waiters recheck when that is over. */
  private judgeHolder(holder: Holder): Holder {
    if (this.hasEnded(holder)) return { ...holder, until: -Infinity };
    if (!holder.isUnconfirmed) {
      this.unconfirmed.delete(holder.owner);
      return holder;
    }
    const leftMs = this.sinceOf(holder) + UNCONFIRMED_MS - this.clock.now();
    return leftMs > 0 ? { ...holder, leaseMs: Math.ceil(leftMs) } : { ...holder, until: -Infinity };
  }

  /** An owner whose grant was taken back may be granted the lock again, with another token. */
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

/** Keeps the entries that were set last. */
function forgetOldest(entries: Map<string, unknown> | Set<string>): void {
  if (entries.size <= MAX_REMEMBERED_SESSIONS) return;
  const [oldest] = entries.keys();
  if (oldest !== undefined) entries.delete(oldest);
}
