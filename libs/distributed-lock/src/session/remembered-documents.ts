import type { Clock } from '../common/clock.js';
import {
  type Holder,
  type LockDocument,
  type StoredNote,
  type StoredWaiter,
  UNCONFIRMED_MS,
} from '../document/document.js';
import type { StoredDocument, SeenDocument } from './backend.js';

/**
 * What this client remembers of each document for its next take and swap:
 *
 * - The version of a free document. A take can then overwrite the document without reading it first.
 * - The last token. Somebody may delete the document by hand, and another client, which does not know that token, may create it
 *   anew: tokens must grow even then.
 */
export class RememberedDocuments {
  private readonly documents = new Map<string, RememberedDocument>();

  /** @param believedMs as in `SessionBackend` */
  constructor(
    private readonly clock: Clock,
    private readonly believedMs = Infinity,
  ) {}

  /** The document as this client saw it last. `undefined` if its version may belong to another document by now. */
  seen(name: string): SeenDocument | undefined {
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

  /** Remembers a document that was read, written or received in a message. @returns the largest token that this client knows of the key */
  see({ row, isFree, lastToken, isMessage = false }: Reading): number {
    const { name, version, notesRead, nextTicket, writtenAt, createdAt = 0 } = row;
    const known = this.documents.get(name);
    // Ignore a message that is older than what we know. Compare revisions: the version is smaller again after a document was
    // deleted and created anew.
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
   * Forgets a document that this client has deleted, and its last token with it: this client deletes a document only if the tokens
   * of the next one will be larger in any case.
   */
  onDeleted(name: string): void {
    this.documents.delete(name);
  }

  /**
   * Stops relying on all versions. The session may have ended because somebody restored a backup. Versions may then repeat, so
   * this client must read each document again before it overwrites it.
   */
  onSessionEnd(): void {
    for (const [name, document] of this.documents)
      this.documents.set(name, { ...document, since: -Infinity });
  }

  /** Our time. 0 where versions never repeat, because the age of a reading does not matter there. */
  private now(): number {
    return this.believedMs === Infinity ? 0 : this.clock.now();
  }
}

interface RememberedDocument extends SeenDocument {
  readonly lastToken: number;
  /** The last token of an earlier document of this name, which somebody has deleted by hand. */
  readonly earlierToken: number;
  /** The revision of the write that wrote the document. */
  readonly writtenAt: number;
  /** When this client read the document, by our clock. */
  readonly since: number;
}

interface Reading {
  readonly row: StoredDocument;
  /** Nobody holds the lock or waits for it, and there is no note. */
  readonly isFree: boolean;
  /** The last token in the document; `undefined` if there is no document. */
  readonly lastToken: number | undefined;
  /** The row came in a message, which may have travelled for long. */
  readonly isMessage?: boolean;
}

/** For how long, in ms, a session that was found alive counts as alive. Then this client asks the back end again. */
export const ALIVE_MS = 1000;
/**
 * How many entries each map in this file may have: sessions, grants, documents. The oldest are forgotten, and read again when they
 * are needed.
 */
const MAX_REMEMBERED_SESSIONS = 10_000;

/**
 * What this client knows of other clients: which sessions have ended, and when it first saw each grant that its owner has not
 * confirmed yet.
 */
export class SessionKnowledge {
  private readonly ended = new Set<string>();
  private readonly aliveAt = new Map<string, number>();
  /** By owner id, the grants that their owners have not confirmed yet. */
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

  /** The sessions in a document of which this client must ask whether they still exist. */
  unknownIn({ holders, queue }: LockDocument, notes: readonly StoredNote[]): readonly string[] {
    const since = this.clock.now() - ALIVE_MS;
    const sessions = [...holders, ...queue, ...notes].flatMap(({ session }) => session ?? []);
    return [...new Set(sessions)].filter(
      (session) => !this.ended.has(session) && (this.aliveAt.get(session) ?? -Infinity) <= since,
    );
  }

  /** Returns the document with expired entries where a session has ended, or where an owner has not confirmed its grant in time. */
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
   * Makes a holder expire if its session has ended or if it did not confirm its grant in time. As long as it may still confirm,
   * its lease is the time that is left for that, so that waiters recheck at the right moment.
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

  /** When this client first saw the grant. The token identifies it: an owner whose grant was taken back may be granted the lock again. */
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
