import type { StoreState } from '../../../port/lock-store.js';
import type { LockStoreError } from '../../../port/lock.errors.js';
import type { Clock } from '../../../time/clock.js';

/**
 * Reports when there is no connection, and when there is one again. A connection that is replaced within
 * `commandTimeoutMs` is not reported, because no call has failed for it.
 */
export class Outage {
  private downSince: number | undefined;
  private isTold = false;
  private cancel = (): void => undefined;

  constructor(
    private readonly options: OutageOptions,
    private readonly error: () => LockStoreError,
  ) {}

  onDown(): void {
    const { clock, commandTimeoutMs, onState } = this.options;
    if (this.downSince !== undefined) return;
    this.downSince = clock.now();
    this.cancel = clock.after(commandTimeoutMs, () => {
      this.isTold = true;
      onState?.({ isUp: false, error: this.error() });
    });
  }

  onUp(): void {
    const { clock, onState } = this.options;
    const { isTold, downSince } = this;
    this.cancel();
    this.downSince = undefined;
    this.isTold = false;
    if (isTold && downSince !== undefined) onState?.({ isUp: true, afterMs: clock.now() - downSince });
  }

  stop(): void {
    this.cancel();
  }
}

export interface OutageOptions {
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly onState?: ((state: StoreState) => void) | undefined;
}
