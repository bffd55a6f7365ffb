import { RebuiltMap } from '../../collections/rebuilt-map.js';
import { kindName, type LockRequest } from '../request/lock-request.js';
import type { LocalQueue } from './local-queue.js';

/**
 * The local queues of one service. Callers with the same claim and the same lease of the same key share a queue and an owner. A
 * fair caller has a queue of its own, and so has one that takes the lock over.
 */
export class LocalQueues {
  /** By key: those of exclusive locks that the watchdog renews. Nearly all calls ask for such a one, and no name is made for them. */
  private readonly plain = new RebuiltMap<string, LocalQueue>();
  private readonly others = new RebuiltMap<string | LockRequest, LocalQueue>();

  get(request: LockRequest): LocalQueue | undefined {
    return isPlain(request) ? this.plain.get(request.key) : this.others.get(nameOf(request));
  }

  set(request: LockRequest, queue: LocalQueue): void {
    if (isPlain(request)) this.plain.set(request.key, queue);
    else this.others.set(nameOf(request), queue);
  }

  delete(request: LockRequest): void {
    if (isPlain(request)) this.plain.delete(request.key);
    else this.others.delete(nameOf(request));
  }

  all(): readonly LocalQueue[] {
    return [...this.plain.values(), ...this.others.values()];
  }
}

function isPlain({ claim, watched, fair, graceMs }: LockRequest): boolean {
  return claim.kind === 'lock' && watched && !fair && graceMs === undefined;
}

function nameOf(request: LockRequest): string | LockRequest {
  return request.fair || request.graceMs !== undefined ? request : kindName(request);
}
