import { inBackground } from '../../async-context/in-background.js';
import type { LockRuntime } from './lock-runtime.js';
import type { GuardedStore } from './guarded-store.js';
import { detached } from '../../async-context/detached.js';

/** A store that was opened during the boot is closed again after this long at rest. */
const REST_MS = 1000;

/** Opens the store of one service with its first use. */
export class RuntimeLifecycle {
  /** Defined while the store is open. */
  runtime: LockRuntime | undefined;
  /** Calls of `inspect`, `list` and `forceRelease` in flight, which no owner represents. */
  private commands = 0;
  private cancelRest: (() => void) | undefined;

  constructor(
    private readonly create: () => LockRuntime,
    /**
     * The application boots: a store that was opened for a call is closed again at rest. Nest does not tell of a failed
     * boot, and open connections would keep its process alive.
     */
    private readonly isBooting: () => boolean,
  ) {}

  open(): LockRuntime {
    if (this.runtime) return this.runtime;
    const runtime = (this.runtime = detached(this.create));
    if (this.isBooting()) this.closeAtRest(runtime);
    return runtime;
  }

  /** From now on an open store is not closed at rest. */
  stayOpen(): void {
    this.cancelRest?.();
  }

  async send<T>(command: (store: GuardedStore) => Promise<T>): Promise<T> {
    const { store } = this.open();
    this.commands += 1;
    try {
      return await command(store);
    } finally {
      this.commands -= 1;
    }
  }

  private closeAtRest(runtime: LockRuntime): void {
    const { clock, owners, store, emit } = runtime;
    const ownersBefore = owners.count;
    this.cancelRest = clock.after(REST_MS, () => {
      const isAtRest = this.commands === 0 && runtime.isAtRest && owners.count === ownersBefore;
      if (!isAtRest) return this.closeAtRest(runtime);
      this.runtime = undefined;
      runtime.stopTimers();
      inBackground(store.close(), (error) => emit({ type: 'error', key: undefined, during: 'close', error }));
    });
  }
}
