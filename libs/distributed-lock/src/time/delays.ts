import type { Clock } from './clock.js';

/** Waits that `endAll` ends at once, so that none outlives a shutdown. */
export class Delays {
  private readonly wakers = new Set<() => void>();

  constructor(private readonly clock: Clock) {}

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        cancel();
        this.wakers.delete(wake);
        resolve();
      };
      const cancel = this.clock.after(ms, wake);
      this.wakers.add(wake);
    });
  }

  endAll(): void {
    for (const wake of this.wakers) wake();
  }
}
