import { Linked } from '../../collections/linked-queue.js';
import type { HeldLock } from './held-lock.js';
import type { Hold } from './hold.js';
import type { LockRequest } from '../request/lock-request.js';

/** A call that waits in the local queue, until it is admitted or leaves. There may be very many, so it is kept small. */
export class Call extends Linked {
  stopListening: (() => void) | undefined;

  constructor(
    readonly number: number,
    readonly request: LockRequest,
    readonly waitingSince: number,
    /** The holds that its async flow has. */
    private readonly holdsOfFlow: readonly Hold[],
    readonly resolve: (lock: HeldLock) => void,
    readonly reject: (error: unknown) => void,
  ) {
    super();
  }

  /** The async flow of the caller holds a lock. Its work may go on while the service closes. */
  get isAtWork(): boolean {
    return this.holdsOfFlow.some((hold) => hold.isLive());
  }

  get deadline(): number {
    return this.waitingSince + this.request.terms.waitMs;
  }
}
