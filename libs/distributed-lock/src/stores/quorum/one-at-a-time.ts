/** Runs one step after the other. A step that fails does not keep back the next one. */
export class OneAtATime {
  private last: Promise<unknown> = Promise.resolve();
  private count = 0;

  /** No step runs or waits. */
  get isIdle(): boolean {
    return this.count === 0;
  }

  async run<T>(step: () => Promise<T>): Promise<T> {
    this.count += 1;
    const mine = this.last.then(step);
    this.last = mine.catch(() => undefined);
    try {
      return await mine;
    } finally {
      this.count -= 1;
    }
  }
}
