import { RebuiltMap } from '../../collections/rebuilt-map.js';
import { kindName, type LockRequest } from '../request/lock-request.js';
import type { LocalQueue } from './local-queue.js';

/**
 * The local queues of one service. Callers with the same claim and the same lease of the same key share a queue and an owner. A
 * fair caller has a queue of its own, and so has one that takes the lock over.
 */
export class LocalQueues {
  /**
   * By key: the queues of calls without a mode, under the watchdog, neither fair nor a takeover. Nearly all calls are, so they
   * need no name.
   */
  private readonly common = new RebuiltMap<string, LocalQueue>();
  private readonly others = new RebuiltMap<string | LockRequest, LocalQueue>();

  get(request: LockRequest): LocalQueue | undefined {
    return isCommon(request) ? this.common.get(request.key) : this.others.get(nameOf(request));
  }

  set(request: LockRequest, queue: LocalQueue): void {
    if (isCommon(request)) this.common.set(request.key, queue);
    else this.others.set(nameOf(request), queue);
  }

  delete(request: LockRequest): void {
    if (isCommon(request)) this.common.delete(request.key);
    else this.others.delete(nameOf(request));
  }

  all(): readonly LocalQueue[] {
    return [...this.common.values(), ...this.others.values()];
  }
}

function isCommon({ claim, watched, fair, graceMs }: LockRequest): boolean {
  return claim.kind === 'lock' && watched && !fair && graceMs === undefined;
}

function nameOf(request: LockRequest): string | LockRequest {
  return request.fair || request.graceMs !== undefined ? request : kindName(request);
}
