import { Link } from '../../collections/linked-queue.js';
import type { Hold } from '../context/hold.js';
import type { LockRequest } from '../request/lock-request.js';

/** One caller in the local queue, until it is admitted or leaves. There may be very many, so it is kept small. */
export class LocalWaiter extends Link {
  /** Stops listening to the request's signal. */
  stopListening: (() => void) | undefined;

  constructor(
    readonly request: LockRequest,
    readonly call: number,
    readonly waitingSince: number,
    readonly resolve: (hold: Hold) => void,
    readonly reject: (error: unknown) => void,
    private readonly holdsOfFlow: readonly Hold[],
  ) {
    super();
  }

  /** Its async flow holds a lock, so that it works and may go on while the service closes. */
  get isAtWork(): boolean {
    return this.holdsOfFlow.some((hold) => hold.checkLive());
  }

  get deadline(): number {
    return this.waitingSince + this.request.waitMs;
  }
}
