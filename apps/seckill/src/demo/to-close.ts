type Close = () => Promise<unknown>;

/** Closes what was opened, the last first, because it may need what was opened before it. */
export class ToClose {
  private readonly opened: Close[] = [];

  add(close: Close): void {
    this.opened.push(close);
  }

  /** A second call does nothing. */
  async close(): Promise<void> {
    for (const close of this.opened.splice(0).reverse()) await close();
  }
}
