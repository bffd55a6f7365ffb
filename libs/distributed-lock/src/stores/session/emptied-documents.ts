/** So many are remembered. The oldest are forgotten, so that a take finds the document and replies with its version. */
const MOST_REMEMBERED = 10_000;

interface EmptiedDocument {
  readonly version: number;
  readonly lastToken: number;
}

/** The documents of free locks that this client has seen last, so that it takes them without reading them first. */
export class EmptiedDocuments {
  private readonly documents = new Map<string, EmptiedDocument>();

  get(name: string): EmptiedDocument | undefined {
    return this.documents.get(name);
  }

  /** @param version `undefined` for a document that is not free, or does not exist */
  see(name: string, version: number | undefined, lastToken: number): void {
    this.documents.delete(name);
    if (version === undefined) return;
    this.documents.set(name, { version, lastToken });
    if (this.documents.size <= MOST_REMEMBERED) return;
    const oldest = this.documents.keys().next();
    if (!oldest.done) this.documents.delete(oldest.value);
  }
}
