import { Link } from '../../collections/linked-queue.js';
import type { Hold } from '../context/hold.js';
import type { LockRequest } from '../request/lock-request.js';

/** One caller in the local queue, until it is admitted or leaves. There may be very many, so it is kept small. */
export class Waiter extends Link {
  /** Stops listening to the request's signal. */
  stopListening: (() => void) | undefined;

  constructor(
    readonly request: LockRequest,
    readonly call: number,
    readonly waitingSince: number,
    readonly resolve: (hold: Hold) => void,
    readonly reject: (error: unknown) => void,
  ) {
    super();
  }

  get deadline(): number {
    return this.waitingSince + this.request.waitMs;
  }
}
