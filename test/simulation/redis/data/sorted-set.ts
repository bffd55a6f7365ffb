export type Scored = readonly [member: string, score: number];

/** Members in order of score, then of bytes. */
export class SortedSet {
  private readonly scores = new Map<string, number>();
  private sorted: Scored[] | undefined;

  get size(): number {
    return this.scores.size;
  }

  scoreOf(member: string): number | undefined {
    return this.scores.get(member);
  }

  set(member: string, score: number): void {
    this.scores.set(member, score);
    this.sorted = undefined;
  }

  delete(member: string): boolean {
    this.sorted = undefined;
    return this.scores.delete(member);
  }

  inOrder(): readonly Scored[] {
    this.sorted ??= [...this.scores].sort(([a, x], [b, y]) => x - y || (a < b ? -1 : a > b ? 1 : 0));
    return this.sorted;
  }

  clone(): SortedSet {
    const copy = new SortedSet();
    for (const [member, score] of this.scores) copy.set(member, score);
    return copy;
  }
}
