import { type Chance, Delays, randomMs } from '../common/clock.js';
import type { Clock } from '../common/clock.js';
import { RebuiltMap } from '../common/collections.js';
import { inBackground } from '../common/promises.js';
import type { ReleaseReply, ReleaseRequest, Renewal } from '../port/lock-store.js';
import { SILENT_WAITER_MS } from '../port/timing.js';

export const RELEASE_RETRY_MS = { least: 100, spread: 400 };

/**
 * Releases that are executed for certain.
 *
 * An acquire that was never answered may lie in a socket and be executed after the release that follows it. The back end
 * refuses an acquire after its not-after, so its release is repeated until one was executed later than that
 * (docs/decisions/0003).
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

/** The requests of one owner that have no reply. The store may execute them after later requests of the owner. */
export class OwnerRequests {
  /** Requests that have begun and not ended. */
  count = 0;
  isReleasing = false;
  /** The last one under way: an earlier renewal that is sent again must not be executed after it. */
  latestRenewal: Renewal | undefined;
  /** The latest not-after of the acquires that have no answer, given up or in flight, in server time. -1 without one. */
  lateNotAfter = -1;
  /** `lateNotAfter` without the acquire in flight. An owner has one acquire in flight at a time. */
  private earlierNotAfter = -1;
  private acquireMs = Infinity;
  private renewalsInFlight: LeaseRequest[] | undefined;
  /** The renewals that were given up: the shortest length and the latest not-after among them. */
  private lateRenewal: LeaseRequest | undefined;

  get hasUnanswered(): boolean {
    return this.lateNotAfter >= 0;
  }

  /** The record must stay, because the store may still execute one of its requests late, and the owner is not released. */
  get isNeeded(): boolean {
    const mayRenewLate = this.lateRenewal !== undefined || Boolean(this.renewalsInFlight?.length);
    return (this.hasUnanswered || mayRenewLate) && !this.isReleasing;
  }

  /** @param leaseMs Infinity where an acquire that is executed late does not shorten a lease */
  onAcquireSent(notAfter: number, leaseMs = Infinity): void {
    this.acquireMs = leaseMs;
    this.earlierNotAfter = this.lateNotAfter;
    this.lateNotAfter = Math.max(this.lateNotAfter, notAfter);
  }

  /** The acquire was executed, or never will be. */
  onAcquireAnswered(): void {
    this.lateNotAfter = this.earlierNotAfter;
  }

  onRenewalSent(copy: LeaseRequest): void {
    (this.renewalsInFlight ??= []).push(copy);
  }

  /** The renewal was executed, or never will be. */
  onRenewalAnswered(copy: LeaseRequest): void {
    this.renewalsInFlight = this.renewalsInFlight?.filter((other) => other !== copy);
  }

  /** The renewal may be executed until its not-after, after later requests. */
  onRenewalGivenUp(copy: LeaseRequest): void {
    this.onRenewalAnswered(copy);
    this.lateRenewal = merged(copy, this.lateRenewal);
  }

  /** @returns the earlier requests that the store may still execute after `executedAt`, and that would then shorten the lease */
  pendingRequestThatWouldShorten(leaseMs: number, executedAt: number): LeaseRequest | undefined {
    if (this.lateRenewal && this.lateRenewal.notAfter < executedAt) this.lateRenewal = undefined;
    const acquire = { leaseMs: this.acquireMs, notAfter: this.lateNotAfter };
    return [acquire, this.lateRenewal, ...(this.renewalsInFlight ?? [])]
      .filter((late) => late !== undefined)
      .filter((late) => late.notAfter >= executedAt && late.leaseMs < leaseMs)
      .reduce<LeaseRequest | undefined>((all, late) => merged(late, all), undefined);
  }
}

function merged(late: LeaseRequest, other: LeaseRequest = late): LeaseRequest {
  return {
    leaseMs: Math.min(late.leaseMs, other.leaseMs),
    notAfter: Math.max(late.notAfter, other.notAfter),
  };
}

/** The owners that have a request under way, or one that may be executed late. */
export class RequestsByOwner {
  private readonly owners = new RebuiltMap<string, OwnerRequests>();

  get(owner: string): OwnerRequests | undefined {
    return this.owners.get(owner);
  }

  /** A request of `owner` begins: its `endRequest` must follow. */
  beginRequest(owner: string): OwnerRequests {
    let its = this.owners.get(owner);
    if (!its) this.owners.set(owner, (its = new OwnerRequests()));
    its.count += 1;
    return its;
  }

  endRequest(owner: string): void {
    const its = this.owners.get(owner);
    if (!its) return;
    its.count -= 1;
    if (its.count === 0 && !its.isNeeded) this.owners.delete(owner);
  }

  isLatest(renewal: Renewal): boolean {
    return this.owners.get(renewal.owner)?.latestRenewal === renewal;
  }
}

/** One copy of a request that restarts a lease: its length, and its not-after in server time. */
export interface LeaseRequest {
  readonly leaseMs: number;
  readonly notAfter: number;
}
