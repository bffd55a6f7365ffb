import type { Clock } from '../../time/clock.js';
import { forgetOldest } from './session-knowledge.js';
import type { DocumentRow, SeenDocument } from './session-backend.js';

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
