import { onAbort } from './abort-listeners.js';
import type { Clock } from './clock.js';
import { Link } from './fifo.js';
import type { Hold } from './hold.js';
import type { LockRequest } from './lock-request.js';

interface Line {
  leave(waiter: Waiter, error?: unknown): void;
}

/** One caller in the local line, until it is served or leaves. There may be very many: it is kept small. */
export class Waiter extends Link {
  readonly askedAt: number;
  private readonly stopListening: (() => void) | undefined;

  constructor(
    readonly request: LockRequest,
    readonly call: number,
    clock: Clock,
    readonly resolve: (hold: Hold) => void,
    readonly reject: (error: unknown) => void,
    line: Line,
  ) {
    super();
    const { signal } = request;
    this.askedAt = clock.now();
    if (signal) {
      this.stopListening = onAbort(signal, () => line.leave(this, signal.reason));
    }
  }

  get deadline(): number {
    return this.askedAt + this.request.waitMs;
  }

  /** It no longer waits, whatever became of it. */
  settle(): void {
    this.stopListening?.();
  }
}
