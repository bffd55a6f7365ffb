import type { ReleaseReply, ReleaseRequest } from '../../port/lock-store.js';
import { SILENT_WAITER_MS } from '../../port/recheck-interval.js';
import { randomMs, type Chance } from '../../time/chance.js';
import type { Clock } from '../../time/clock.js';
import { Delays } from '../../time/delays.js';
import type { OwnerRequests, RequestsByOwner } from './owner-requests.js';

export const RELEASE_RETRY_MS = { least: 100, spread: 400 };

/**
 * Releases that are executed for certain.
 *
 * An acquire that was never answered may lie in a socket and be executed after the release that follows it. The back end
 * refuses an acquire after its not-after, so its release is repeated until one was executed later than that
 * (docs/decisions/0003).
 */
export class CertainReleases {
  private readonly delays: Delays;
  private isClosed = false;

  constructor(
    private readonly owners: RequestsByOwner,
    private readonly clock: Clock,
    private readonly chance: Chance,
    private readonly commandTimeoutMs: number,
  ) {
    this.delays = new Delays(clock);
  }

  /**
   * @param copyFor makes the function that sends one copy of the release
   * @throws LockStoreError when the back end refuses, or does not answer, until the lease and the ticket have run out
   */
  async run(
    { owner, leaseMs }: ReleaseRequest,
    copyFor: (requests: OwnerRequests) => () => Promise<ExecutedRelease>,
  ): Promise<ReleaseReply> {
    const longestMs = Math.max(leaseMs, SILENT_WAITER_MS) + this.commandTimeoutMs;
    let giveUpAt: number | undefined;
    // The time counts from the first copy that does not settle the release: mostly the first copy does, and no clock is read.
    const isLate = (): boolean => {
      const now = this.clock.now();
      giveUpAt ??= now + longestMs;
      return now > giveUpAt;
    };
    const requests = this.owners.beginRequest(owner);
    requests.isReleasing = true;
    let wasHolder = false;
    let isUnsure = false;
    try {
      const send = copyFor(requests);
      for (;;) {
        try {
          const reply = await send();
          wasHolder ||= reply.wasHolder;
          // The clock of this client decides at the end, because the back end's clock may have been set back by any time.
          const isOver = reply.executedAt > requests.lateNotAfter || isLate();
          if (isOver) {
            if (wasHolder) return 'released';
            return isUnsure ? 'unknown' : 'not held';
          }
        } catch (error) {
          // A refused release is repeated, too: a right that is missing for a moment must not leave the lock behind.
          if (this.isClosed || isLate()) throw error;
          isUnsure = true;
        }
        await this.delays.wait(randomMs(this.chance, RELEASE_RETRY_MS));
      }
    } finally {
      this.owners.endRequest(owner);
    }
  }

  close(): void {
    this.isClosed = true;
    this.delays.endAll();
  }
}

/** The back end has executed one copy of a release. */
export interface ExecutedRelease {
  readonly wasHolder: boolean;
  /** The store's time, in ms; 0 if the reply did not tell it. A reply need not, unless an acquire is unanswered. */
  readonly executedAt: number;
}
