/** So many are remembered. The oldest are forgotten, so that a take finds the document and replies with its version. */
const MOST_REMEMBERED = 10_000;

interface RememberedDocument {
  /** Of a document whose lock is free. */
  readonly version: number | undefined;
  readonly lastToken: number;
}

/**
 * What this client remembers of documents for the next take: the version of one whose lock is free, so that it is replaced
 * without being read first, and a last token that is larger than the next revision, so that tokens grow also when
 * somebody deletes the document by hand.
 */
export class RememberedDocuments {
  private readonly documents = new Map<string, RememberedDocument>();

  get(name: string): RememberedDocument | undefined {
    return this.documents.get(name);
  }

  /**
   * @param version `undefined` for a document whose lock is not free
   * @param revision the newest of the back end
   */
  onDocument(name: string, version: number | undefined, lastToken: number, revision: number): void {
    this.documents.delete(name);
    if (version === undefined && lastToken <= revision) return;
    this.documents.set(name, { version, lastToken });
    if (this.documents.size <= MOST_REMEMBERED) return;
    const oldest = this.documents.keys().next();
    if (!oldest.done) this.documents.delete(oldest.value);
  }

  /** The document does not exist. */
  onNone(name: string, revision: number): void {
    const { lastToken = 0 } = this.documents.get(name) ?? {};
    this.onDocument(name, undefined, lastToken, revision);
  }

  /** This client has deleted the document, so that no token was larger than the revision. */
  onDeleted(name: string): void {
    this.documents.delete(name);
  }
}
