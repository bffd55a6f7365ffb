import { type Chance, type Clock, Delays, randomMs } from '../common/clock.js';
import { inBackground } from '../common/promises.js';
import type { ReleaseReply, ReleaseRequest } from '../port/lock-store.js';
import { SILENT_WAITER_MS } from '../port/timing.js';
import type { OwnerRequests, RequestsByOwner } from './owner-requests.js';

export const RELEASE_RETRY_MS = { least: 100, spread: 400 };

/**
 * Sends releases so that each of them certainly takes effect. An acquire that got no reply may still lie in a socket. If the store
 * executed it after the release, the owner would hold the lock for nobody. The store refuses an acquire after its deadline, so this
 * class repeats a release until the store has executed one copy later than that deadline (docs/decisions/0003).
 */
export class ReliableRelease {
  private readonly delays: Delays;
  private isClosed = false;

  constructor(
    private readonly owners: RequestsByOwner,
    private readonly options: ReleaseOptions,
  ) {
    this.delays = new Delays(options.clock);
  }

  /**
   * Sends the release, and repeats it as long as the store may still execute an unanswered acquire of the owner. Usually one copy
   * is enough: this then creates one promise and does not read the clock (docs/decisions/0012).
   *
   * @throws LockStoreError when the store still refuses or does not answer after the lease and the ticket have run out
   */
  run({ owner, leaseMs }: ReleaseRequest, sendCopy: SendCopy): Promise<ReleaseReply> {
    const { owners, options } = this;
    const { clock, chance, commandTimeoutMs } = options;
    const requests = owners.beginRequest(owner);
    requests.isReleasing = true;
    let wasHolder = false;
    /** An earlier copy got an error, but the store may have executed it. "Not held" in a later reply then proves nothing. */
    let isUnsure = false;
    let giveUpAt: number | undefined;
    const isLate = (): boolean => {
      const now = clock.now();
      giveUpAt ??= now + Math.max(leaseMs, SILENT_WAITER_MS) + commandTimeoutMs;
      return now > giveUpAt;
    };
    return new Promise((resolve, reject) => {
      const onReply = (reply: ExecutedRelease): void => {
        wasHolder ||= reply.wasHolder;
        // Also stop by our own clock: if somebody sets the store's clock back, `executedAt` may not reach the deadline for hours.
        const isOver = reply.executedAt > requests.lateDeadline || isLate();
        if (!isOver) return sendAgain();
        owners.endRequest(owner);
        resolve(wasHolder ? 'released' : isUnsure ? 'unknown' : 'not held');
      };
      // Repeat even a refused release: if the store's user lacks a right for a moment, the lock must not stay held.
      const onError = (error: unknown): void => {
        isUnsure = true;
        if (!this.isClosed && !isLate()) return sendAgain();
        owners.endRequest(owner);
        reject(error as Error);
      };
      const send = (): void => {
        try {
          sendCopy(requests, onReply, onError);
        } catch (error) {
          onError(error);
        }
      };
      const sendAgain = (): void => {
        inBackground(this.delays.wait(randomMs(chance, RELEASE_RETRY_MS)).then(send), reject);
      };
      send();
    });
  }

  close(): void {
    this.isClosed = true;
    this.delays.endAll();
  }
}

/** Sends one copy of a release. Calls `onReply` when the store has executed it, or else `onError`. */
type SendCopy = (
  requests: OwnerRequests,
  onReply: (reply: ExecutedRelease) => void,
  onError: (error: unknown) => void,
) => void;

interface ReleaseOptions {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly commandTimeoutMs: number;
}

export interface ExecutedRelease {
  readonly wasHolder: boolean;
  /** When the store executed the copy, by the store's clock. May be 0 if every acquire was answered: then any time is late enough. */
  readonly executedAt: number;
}
