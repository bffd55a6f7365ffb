import { onAbort } from '../../async/abort-listeners.js';
import type { Clock } from '../../time/clock.js';
import { Link } from '../../collections/linked-queue.js';
import type { Hold } from '../context/hold.js';
import type { LockRequest } from '../request/lock-request.js';

interface Line {
  leave(waiter: Waiter, error?: unknown): void;
}

/** One caller in the local line, until it is served or leaves. There may be very many: it is kept small. */
export class Waiter extends Link {
  readonly waitingSince: number;
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
    this.waitingSince = clock.now();
    if (signal) {
      this.stopListening = onAbort(signal, () => line.leave(this, signal.reason));
    }
  }

  get deadline(): number {
    return this.waitingSince + this.request.waitMs;
  }

  /** It no longer waits, whatever became of it. */
  settle(): void {
    this.stopListening?.();
  }
}
