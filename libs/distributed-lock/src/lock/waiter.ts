import type { Clock } from './clock.js';
import type { Link } from './fifo.js';
import type { Hold } from './hold.js';
import type { LockRequest } from './lock-request.js';

interface Line {
  leave(waiter: Waiter, error?: unknown): void;
}

interface Outcome {
  resolve(hold: Hold): void;
  reject(error: unknown): void;
}

/** One caller in the local line, until it is served or leaves. */
export class Waiter implements Link {
  before: Link | undefined;
  after: Link | undefined;
  readonly askedAt: number;
  readonly deadline: number;
  private readonly onAbort: (() => void) | undefined;

  constructor(
    readonly request: LockRequest,
    readonly call: number,
    clock: Clock,
    readonly outcome: Outcome,
    line: Line,
  ) {
    const { waitMs, signal } = request;
    this.askedAt = clock.now();
    this.deadline = this.askedAt + waitMs;
    if (signal) {
      this.onAbort = () => line.leave(this, signal.reason);
      signal.addEventListener('abort', this.onAbort, { once: true });
    }
  }

  /** It no longer waits, whatever became of it. */
  settle(): void {
    if (this.onAbort) this.request.signal?.removeEventListener('abort', this.onAbort);
  }
}
