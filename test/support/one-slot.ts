/**
 * A queue with one slot that starts the next task in the completion of the one before, and so in its async context, as p-queue,
 * fastq and others do.
 */
export class OneSlot {
  private readonly waiting: (() => void)[] = [];
  private isBusy = false;

  /** How many tasks wait. */
  get length(): number {
    return this.waiting.length;
  }

  add<T>(task: () => T | Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const run = (): void => {
        this.isBusy = true;
        const started = new Promise<T>((begun) => begun(task()));
        started.then(resolve, reject).finally(() => {
          this.isBusy = false;
          this.waiting.shift()?.();
        });
      };
      if (this.isBusy) this.waiting.push(run);
      else run();
    });
  }
}
