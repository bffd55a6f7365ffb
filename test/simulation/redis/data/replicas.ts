/** How far each replica has got in the journal of its master, and who waits for them. */
export class Replicas {
  private readonly applied: number[];
  private waiting: { readonly length: number; readonly least: number; readonly settle: () => void }[] = [];

  constructor(count: number) {
    this.applied = Array.from({ length: count }, () => 0);
  }

  get count(): number {
    return this.applied.length;
  }

  lengthOf(replica: number): number {
    return this.applied[replica] ?? 0;
  }

  /** A replica has applied so many changes, and its master knows. */
  acknowledge(replica: number, length: number): void {
    this.applied[replica] = Math.max(this.lengthOf(replica), length);
    const done = this.waiting.filter((it) => this.countAt(it.length) >= it.least);
    this.waiting = this.waiting.filter((it) => !done.includes(it));
    for (const { settle } of done) settle();
  }

  /** How many have so many changes. */
  countAt(length: number): number {
    return this.applied.filter((it) => it >= length).length;
  }

  /** @returns stops waiting */
  wait(length: number, least: number, settle: () => void): () => void {
    const entry = { length, least, settle };
    this.waiting.push(entry);
    return () => {
      this.waiting = this.waiting.filter((it) => it !== entry);
    };
  }

  /** After a failover or a loss of data no replica has more than its master. */
  cut(length: number): void {
    this.applied.forEach((it, i) => (this.applied[i] = Math.min(it, length)));
    this.waiting = [];
  }
}
