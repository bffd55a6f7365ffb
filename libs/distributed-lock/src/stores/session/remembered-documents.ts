/** So many are remembered. The oldest are forgotten, so that a take finds the document and replies with its version. */
const MOST_REMEMBERED = 10_000;

interface RememberedDocument {
  /** Of a document whose lock is free. */
  readonly version: number | undefined;
  readonly lastToken: number;
  /** The last token of a document of this name that somebody has deleted by hand. */
  readonly earlierToken: number;
  /** The revision of the write that wrote it. */
  readonly writtenAt: number;
}

const NONE: RememberedDocument = { version: undefined, lastToken: 0, earlierToken: 0, writtenAt: Infinity };

/** What a row says about the document. */
export interface DocumentSeen {
  /** `undefined` for a document whose lock is not free, or that does not exist. */
  readonly version: number | undefined;
  /** `undefined` for a document that does not exist. */
  readonly lastToken: number | undefined;
  readonly writtenAt: number;
  readonly createdAt?: number | undefined;
  /** The newest of the back end. */
  readonly revision: number;
}

/**
 * What this client remembers of documents for the next take: the version of one whose lock is free, so that it is replaced
 * without being read first, and a last token that is larger than the next revision, so that tokens grow also when
 * somebody deletes the document by hand, and a client that does not know it makes it anew.
 */
export class RememberedDocuments {
  private readonly documents = new Map<string, RememberedDocument>();

  /** The version of a document whose lock is free, and the last token that this client knows of. */
  get(name: string): Pick<RememberedDocument, 'version' | 'lastToken'> | undefined {
    const found = this.documents.get(name);
    return found && { version: found.version, lastToken: Math.max(found.lastToken, found.earlierToken) };
  }

  /** @returns the last token that this client knows of */
  see(name: string, { version, lastToken, writtenAt, createdAt = 0, revision }: DocumentSeen): number {
    const known = this.documents.get(name) ?? NONE;
    const isSame = lastToken !== undefined && createdAt <= known.writtenAt;
    const earlierToken = isSame ? known.earlierToken : Math.max(known.earlierToken, known.lastToken);
    const seen = { version, lastToken: lastToken ?? 0, earlierToken, writtenAt };
    const most = Math.max(seen.lastToken, earlierToken);
    this.documents.delete(name);
    if (version === undefined && most <= revision) return most;
    this.documents.set(name, seen);
    if (this.documents.size > MOST_REMEMBERED) {
      const oldest = this.documents.keys().next();
      if (!oldest.done) this.documents.delete(oldest.value);
    }
    return most;
  }

  /** This client has deleted the document, so that no token was larger than the revision. */
  onDeleted(name: string): void {
    this.documents.delete(name);
  }
}
