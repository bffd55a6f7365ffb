import { type Chance, type Clock, Delays, randomMs } from '../common/clock.js';
import { RebuiltMap } from '../common/collections.js';
import { inBackground } from '../common/promises.js';
import type { ReleaseReply, ReleaseRequest, Renewal } from '../port/lock-store.js';
import { SILENT_WAITER_MS } from '../port/timing.js';

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

/** The unanswered requests of one owner, which the store may execute after requests that this client sends later. */
export class OwnerRequests {
  /** How many requests of the owner are running. */
  count = 0;
  isReleasing = false;
  /** The owner's latest renewal. Earlier ones must not be repeated: the store could execute one of them last, and so shorten the lease. */
  latestRenewal: Renewal | undefined;
  /** Until when, in server time, the store may still execute an acquire that got no reply. -1 if every acquire was answered. */
  lateDeadline = -1;
  /** `lateDeadline` without the one acquire that may be in flight. */
  private earlierDeadline = -1;
  private acquireMs = Infinity;
  private renewalsInFlight: LeaseRequest[] | undefined;
  /** The renewals that got no reply in time, merged (see `merged`). */
  private lateRenewal: LeaseRequest | undefined;

  get hasUnanswered(): boolean {
    return this.lateDeadline >= 0;
  }

  /** Whether to keep this record after the owner's last request, because the store may still execute one late. A release rules that out. */
  get isNeeded(): boolean {
    const mayRenewLate = this.lateRenewal !== undefined || Boolean(this.renewalsInFlight?.length);
    return (this.hasUnanswered || mayRenewLate) && !this.isReleasing;
  }

  /** @param leaseMs the lease that the acquire would start; `Infinity` for a store on which a late acquire never shortens a lease */
  onAcquireSent(deadline: number, leaseMs = Infinity): void {
    this.acquireMs = leaseMs;
    this.earlierDeadline = this.lateDeadline;
    this.lateDeadline = Math.max(this.lateDeadline, deadline);
  }

  /** Called when the acquire was executed or certainly never will be. */
  onAcquireAnswered(): void {
    this.lateDeadline = this.earlierDeadline;
  }

  onRenewalSent(copy: LeaseRequest): void {
    (this.renewalsInFlight ??= []).push(copy);
  }

  /** Called when the renewal was executed or certainly never will be. */
  onRenewalAnswered(copy: LeaseRequest): void {
    this.renewalsInFlight = this.renewalsInFlight?.filter((other) => other !== copy);
  }

  /** Called when the client stops waiting for the reply. The store may still execute the renewal until its deadline. */
  onRenewalGivenUp(copy: LeaseRequest): void {
    this.onRenewalAnswered(copy);
    this.lateRenewal = merged(copy, this.lateRenewal);
  }

  /** @returns the unanswered requests, merged, that would shorten a lease of `leaseMs` if they are executed after `executedAt` */
  pendingRequestThatWouldShorten(leaseMs: number, executedAt: number): LeaseRequest | undefined {
    if (this.lateRenewal && this.lateRenewal.deadline < executedAt) this.lateRenewal = undefined;
    const acquire = { leaseMs: this.acquireMs, deadline: this.lateDeadline };
    return [acquire, this.lateRenewal, ...(this.renewalsInFlight ?? [])]
      .filter((request) => request !== undefined)
      .filter((request) => request.deadline >= executedAt && request.leaseMs < leaseMs)
      .reduce<LeaseRequest | undefined>((all, request) => merged(request, all), undefined);
  }
}

/** One request with the shortest lease and the latest deadline of two. */
function merged(one: LeaseRequest, other: LeaseRequest = one): LeaseRequest {
  return { leaseMs: Math.min(one.leaseMs, other.leaseMs), deadline: Math.max(one.deadline, other.deadline) };
}

/** The requests of each owner that has one in flight, or one that may still be executed late. */
export class RequestsByOwner {
  private readonly owners = new RebuiltMap<string, OwnerRequests>();

  get(owner: string): OwnerRequests | undefined {
    return this.owners.get(owner);
  }

  /** The caller must call `endRequest` when the request is over. */
  beginRequest(owner: string): OwnerRequests {
    let requests = this.owners.get(owner);
    if (!requests) this.owners.set(owner, (requests = new OwnerRequests()));
    requests.count += 1;
    return requests;
  }

  endRequest(owner: string): void {
    const requests = this.owners.get(owner);
    if (!requests) return;
    requests.count -= 1;
    if (requests.count === 0 && !requests.isNeeded) this.owners.delete(owner);
  }

  isLatest(renewal: Renewal): boolean {
    return this.owners.get(renewal.owner)?.latestRenewal === renewal;
  }
}

/** One copy of an acquire or a renewal: the lease that it starts, and its deadline in server time. */
export interface LeaseRequest {
  readonly leaseMs: number;
  readonly deadline: number;
}
