import { RebuiltMap } from '../common/collections.js';
import type { Renewal } from '../port/lock-store.js';

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
  private renewalsInFlight: SentCopy[] | undefined;
  /** The renewals that got no reply in time, merged (see `merged`). */
  private lateRenewal: SentCopy | undefined;

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

  onRenewalSent(copy: SentCopy): void {
    (this.renewalsInFlight ??= []).push(copy);
  }

  /** Called when the renewal was executed or certainly never will be. */
  onRenewalAnswered(copy: SentCopy): void {
    this.renewalsInFlight = this.renewalsInFlight?.filter((other) => other !== copy);
  }

  /** Called when the client stops waiting for the reply. The store may still execute the renewal until its deadline. */
  onRenewalGivenUp(copy: SentCopy): void {
    this.onRenewalAnswered(copy);
    this.lateRenewal = merged(copy, this.lateRenewal);
  }

  /** @returns the unanswered requests, merged, that would shorten a lease of `leaseMs` if they are executed after `executedAt` */
  pendingRequestThatWouldShorten(leaseMs: number, executedAt: number): SentCopy | undefined {
    if (this.lateRenewal && this.lateRenewal.deadline < executedAt) this.lateRenewal = undefined;
    const acquire = { leaseMs: this.acquireMs, deadline: this.lateDeadline };
    return [acquire, this.lateRenewal, ...(this.renewalsInFlight ?? [])]
      .filter((request) => request !== undefined)
      .filter((request) => request.deadline >= executedAt && request.leaseMs < leaseMs)
      .reduce<SentCopy | undefined>((all, request) => merged(request, all), undefined);
  }
}

/** One request with the shortest lease and the latest deadline of two. */
function merged(one: SentCopy, other: SentCopy = one): SentCopy {
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
export interface SentCopy {
  readonly leaseMs: number;
  readonly deadline: number;
}
