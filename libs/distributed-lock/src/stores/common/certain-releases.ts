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
   * Mostly the first copy settles the release, and takes one promise then (docs/decisions/0012).
   *
   * @param copyFor makes the function that sends one copy of the release
   * @throws LockStoreError when the back end refuses, or does not answer, until the lease and the ticket have run out
   */
  run(
    { owner, leaseMs }: ReleaseRequest,
    copyFor: (requests: OwnerRequests) => SendCopy,
  ): Promise<ReleaseReply> {
    const requests = this.owners.beginRequest(owner);
    requests.isReleasing = true;
    const longestMs = Math.max(leaseMs, SILENT_WAITER_MS) + this.commandTimeoutMs;
    const release = new Release(owner, requests, copyFor(requests), longestMs);
    return new Promise((resolve, reject) => {
      release.send(
        (reply) => resolve(this.outcomeOf(release, reply) ?? this.repeat(release)),
        (error) => {
          try {
            this.onFailed(release, error);
            resolve(this.repeat(release));
          } catch (failure) {
            reject(failure as Error);
          }
        },
      );
    });
  }

  private async repeat(release: Release): Promise<ReleaseReply> {
    for (;;) {
      await this.delays.wait(randomMs(this.chance, RELEASE_RETRY_MS));
      try {
        const outcome = this.outcomeOf(release, await release.sent());
        if (outcome !== undefined) return outcome;
      } catch (error) {
        this.onFailed(release, error);
      }
    }
  }

  /** @returns `undefined` if the release must be repeated */
  private outcomeOf(release: Release, reply: ExecutedRelease): ReleaseReply | undefined {
    release.wasHolder ||= reply.wasHolder;
    // The clock of this client decides at the end, because the back end's clock may have been set back by any time.
    const isOver = reply.executedAt > release.requests.lateNotAfter || release.isLate(this.clock);
    if (!isOver) return undefined;
    this.owners.endRequest(release.owner);
    if (release.wasHolder) return 'released';
    return release.isUnsure ? 'unknown' : 'not held';
  }

  /** A refused release is repeated, too: a right that is missing for a moment must not leave the lock behind. */
  private onFailed(release: Release, error: unknown): void {
    release.isUnsure = true;
    if (!this.isClosed && !release.isLate(this.clock)) return;
    this.owners.endRequest(release.owner);
    throw error;
  }

  close(): void {
    this.isClosed = true;
    this.delays.endAll();
  }
}

/** A release, from its first copy until it is certain. */
class Release {
  wasHolder = false;
  /** A copy of it had no answer, and may have been executed. */
  isUnsure = false;
  private giveUpAt: number | undefined;

  constructor(
    readonly owner: string,
    readonly requests: OwnerRequests,
    private readonly sendCopy: SendCopy,
    private readonly longestMs: number,
  ) {}

  send(onReply: (reply: ExecutedRelease) => void, onError: (error: unknown) => void): void {
    try {
      this.sendCopy(onReply, onError);
    } catch (error) {
      onError(error);
    }
  }

  sent(): Promise<ExecutedRelease> {
    return new Promise((resolve, reject) => this.send(resolve, reject));
  }

  /** The time counts from the first copy that does not settle the release: mostly the first copy does, and no clock is read. */
  isLate(clock: Clock): boolean {
    const now = clock.now();
    this.giveUpAt ??= now + this.longestMs;
    return now > this.giveUpAt;
  }
}

/** Sends one copy of a release. One of the functions is called with what comes of it. */
export type SendCopy = (onReply: (reply: ExecutedRelease) => void, onError: (error: unknown) => void) => void;

/** The back end has executed one copy of a release. */
export interface ExecutedRelease {
  readonly wasHolder: boolean;
  /** The store's time, in ms; 0 if the reply did not tell it. A reply need not, unless an acquire is unanswered. */
  readonly executedAt: number;
}
