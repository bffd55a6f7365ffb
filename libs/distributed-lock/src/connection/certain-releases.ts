import { type Chance, type Clock, Delays, randomMs } from '../common/clock.js';
import { RebuiltMap } from '../common/collections.js';
import { inBackground } from '../common/promises.js';
import type { ReleaseReply, ReleaseRequest, Renewal } from '../port/lock-store.js';
import { SILENT_WAITER_MS } from '../port/timing.js';

export const RELEASE_RETRY_MS = { least: 100, spread: 400 };

/**
 * Sends releases so that each of them certainly takes effect.
 *
 * An acquire that was never answered may lie in a socket, and be executed after the release that follows it. The back end refuses
 * an acquire after its not-after. So a release is repeated until one copy of it was executed later than that
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
   * Sends the release, and repeats it as long as an unanswered acquire of the owner may still be executed. Mostly one copy is
   * enough, and then this makes one promise and does not read the clock (docs/decisions/0012).
   *
   * @param copyFor makes the function that sends one copy of the release
   * @throws LockStoreError when the back end goes on refusing or not answering until the lease and the ticket have run out
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
    /** A copy has failed, and may have been executed all the same. */
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
        // Our clock ends the repetition in any case, because the back end's clock may have been set back by any time.
        const isOver = reply.executedAt > requests.lateNotAfter || isLate();
        if (!isOver) return sendAgain();
        owners.endRequest(owner);
        resolve(wasHolder ? 'released' : isUnsure ? 'unknown' : 'not held');
      };
      /** Repeats the release after any error, even a refusal: a right that is missing for a moment must not leave the lock behind. */
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

/** Sends one copy of a release, and calls one of the two functions with the outcome. */
export type SendCopy = (onReply: (reply: ExecutedRelease) => void, onError: (error: unknown) => void) => void;

/** The reply of the back end to one copy of a release. */
export interface ExecutedRelease {
  readonly wasHolder: boolean;
  /**
   * When the store executed the copy, by its own clock, in ms. 0 if the reply does not say so, which is enough unless an acquire
   * is unanswered.
   */
  readonly executedAt: number;
}

/**
 * The requests of one owner that have not been answered, in flight or given up. The store may execute them after later requests
 * of the owner.
 */
export class OwnerRequests {
  /** How many requests have begun and not ended (`RequestsByOwner`). */
  count = 0;
  isReleasing = false;
  /** The renewal that began last. An earlier one must not be sent again, because it could be executed after this one. */
  latestRenewal: Renewal | undefined;
  /**
   * The latest not-after, in server time, of the acquires that are in flight or were given up without an answer; -1 if there are
   * none.
   */
  lateNotAfter = -1;
  /** `lateNotAfter` without the acquire that is in flight. An owner has at most one acquire in flight at a time. */
  private earlierNotAfter = -1;
  private acquireMs = Infinity;
  private renewalsInFlight: LeaseRequest[] | undefined;
  /** All renewals that were given up without an answer, as one: the shortest lease and the latest not-after among them. */
  private lateRenewal: LeaseRequest | undefined;

  get hasUnanswered(): boolean {
    return this.lateNotAfter >= 0;
  }

  /**
   * Whether the record must be kept after its last request has ended: the store may still execute one late, and the owner is not
   * being released.
   */
  get isNeeded(): boolean {
    const mayRenewLate = this.lateRenewal !== undefined || Boolean(this.renewalsInFlight?.length);
    return (this.hasUnanswered || mayRenewLate) && !this.isReleasing;
  }

  /** @param leaseMs `Infinity` where an acquire that is executed late does not shorten a lease */
  onAcquireSent(notAfter: number, leaseMs = Infinity): void {
    this.acquireMs = leaseMs;
    this.earlierNotAfter = this.lateNotAfter;
    this.lateNotAfter = Math.max(this.lateNotAfter, notAfter);
  }

  /** Called when the acquire was executed or certainly never will be. */
  onAcquireAnswered(): void {
    this.lateNotAfter = this.earlierNotAfter;
  }

  onRenewalSent(copy: LeaseRequest): void {
    (this.renewalsInFlight ??= []).push(copy);
  }

  /** Called when the renewal was executed or certainly never will be. */
  onRenewalAnswered(copy: LeaseRequest): void {
    this.renewalsInFlight = this.renewalsInFlight?.filter((other) => other !== copy);
  }

  /** Called when a renewal was not answered in time. Until its not-after it may still be executed, even after later requests. */
  onRenewalGivenUp(copy: LeaseRequest): void {
    this.onRenewalAnswered(copy);
    this.lateRenewal = merged(copy, this.lateRenewal);
  }

  /**
   * @returns the earlier requests, merged into one, that the store may still execute after `executedAt` and that would then
   * shorten a lease of `leaseMs`
   */
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

/** The `OwnerRequests` of each owner that has a request in flight, or one that may still be executed late. */
export class RequestsByOwner {
  private readonly owners = new RebuiltMap<string, OwnerRequests>();

  get(owner: string): OwnerRequests | undefined {
    return this.owners.get(owner);
  }

  /** Records that a request of `owner` begins. `endRequest` must follow. */
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

/** One copy of a request that restarts a lease: the length of the lease, and the copy's not-after in server time. */
export interface LeaseRequest {
  readonly leaseMs: number;
  readonly notAfter: number;
}
