import { inBackground } from '../../async-context/in-background.js';
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
    private readonly options: ReleaseOptions,
  ) {
    this.delays = new Delays(options.clock);
  }

  /**
   * Mostly the first copy settles the release, and takes one promise and no reading of the clock then (docs/decisions/0012).
   *
   * @param copyFor makes the function that sends one copy of the release
   * @throws LockStoreError when the back end refuses, or does not answer, until the lease and the ticket have run out
   */
  run(
    { owner, leaseMs }: ReleaseRequest,
    copyFor: (requests: OwnerRequests) => SendCopy,
  ): Promise<ReleaseReply> {
    const { owners, options } = this;
    const { clock, chance, commandTimeoutMs } = options;
    const requests = owners.beginRequest(owner);
    requests.isReleasing = true;
    const sendCopy = copyFor(requests);
    let wasHolder = false;
    /** A copy had no answer, and may have been executed. */
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
        // The clock of this client decides at the end, because the back end's clock may have been set back by any time.
        const isOver = reply.executedAt > requests.lateNotAfter || isLate();
        if (!isOver) return sendAgain();
        owners.endRequest(owner);
        resolve(wasHolder ? 'released' : isUnsure ? 'unknown' : 'not held');
      };
      /** A refused release is repeated, too: a right that is missing for a moment must not leave the lock behind. */
      const onError = (error: unknown): void => {
        isUnsure = true;
        if (!this.isClosed && !isLate()) return sendAgain();
        owners.endRequest(owner);
        reject(error as Error);
      };
      const send = (): void => {
        try {
          sendCopy(onReply, onError);
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

interface ReleaseOptions {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly commandTimeoutMs: number;
}

/** Sends one copy of a release. One of the functions is called with what comes of it. */
export type SendCopy = (onReply: (reply: ExecutedRelease) => void, onError: (error: unknown) => void) => void;

/** The back end has executed one copy of a release. */
export interface ExecutedRelease {
  readonly wasHolder: boolean;
  /** The store's time, in ms; 0 if the reply did not tell it. A reply need not, unless an acquire is unanswered. */
  readonly executedAt: number;
}
