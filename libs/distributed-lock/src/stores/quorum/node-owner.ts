import { leaseValidity } from '../../port/lease-validity.js';
import type {
  AcquireReply,
  AcquireRequest,
  Grant,
  ReleaseReply,
  ReleaseRequest,
  Renewal,
  RenewalReply,
} from '../../port/lock-store.js';
import type { Clock } from '../../time/clock.js';
import { OneAtATime } from './one-at-a-time.js';
import { ownerHasLeft } from './quorum.errors.js';
import type { QuorumNode } from './quorum.node.js';

/**
 * One owner at one node: in its queue, or with a node lease.
 *
 * Each attempt at the node has an id of its own, from its first acquire to its release. The node's store repeats the release
 * until no acquire of that id can be executed any more, so a late reply to an earlier id needs no care.
 */
export class NodeOwner {
  /** The node lease, by the node's last answer. */
  lease: Grant | undefined;
  /** The node may know the present id. */
  isOpen = false;
  private id: string;
  private acquires = new OneAtATime();
  private renewalsSent = 0;

  constructor(
    readonly node: QuorumNode,
    private readonly clock: Clock,
    private readonly nextId: () => string,
  ) {
    this.id = nextId();
  }

  isNamed(id: string): boolean {
    return this.isOpen && this.id === id;
  }

  /**
   * Sends one acquire request at a time. With two of one id in flight, the Redis store would take the first for unanswered until
   * its not-after.
   */
  acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { id } = this;
    this.isOpen = true;
    return this.acquires.run(async () => {
      if (!this.isNamed(id)) throw ownerHasLeft(request.key);
      const reply = await this.node.watch(this.node.store.acquire({ ...request, owner: id }));
      if (this.isNamed(id)) this.lease = reply.kind === 'granted' ? reply : undefined;
      return reply;
    });
  }

  /** Renews the node lease, which must be there. @throws LockStoreError where the node's store answers "unknown" */
  renew(renewal: Renewal): Promise<RenewalReply> {
    return this.node.watch(this.renewLease(renewal, this.lease as Grant));
  }

  private async renewLease(renewal: Renewal, { token, lastToken }: Grant): Promise<RenewalReply> {
    const { id: owner } = this;
    const sentAt = this.clock.now();
    const number = ++this.renewalsSent;
    const [reply] = await this.node.store.renew([{ ...renewal, owner, token, lastToken }]);
    if (this.isNamed(owner) && this.lease?.token === token) {
      const isLatest = number === this.renewalsSent;
      const { lease } = this;
      const isAnswered = reply?.kind === 'renewed';
      const validUntil = isAnswered ? reply.validUntil : leaseValidity(sentAt, renewal.leaseMs);
      const waiting = isAnswered ? reply.waiting : lease.waiting;
      if (reply?.kind === 'lost') this.lease = undefined;
      else if (isAnswered && isLatest) this.lease = { ...lease, validUntil, waiting };
      // An unanswered renewal may or may not have been executed, and a later one may have been executed after an answered one. In
      // both cases the earlier end counts.
      else this.lease = { ...lease, validUntil: Math.min(lease.validUntil, validUntil), waiting };
    }
    if (reply?.kind === 'unknown') throw reply.error;
    return reply ?? { kind: 'lost' };
  }

  /** @param lastUsed the last fencing token that this owner has used: the node need not keep those beyond it */
  release({ key, claim, leaseMs, holdUntil }: NodeRelease, lastUsed: number): Promise<ReleaseReply> {
    if (!this.isOpen) return Promise.resolve('not held');
    const { id: owner, lease } = this;
    this.id = this.nextId();
    this.isOpen = false;
    this.lease = undefined;
    this.acquires = new OneAtATime();
    const used = lease && { token: Math.max(lease.token - 1, lastUsed), lastToken: lease.lastToken };
    const isLess = used && used.token < used.lastToken;
    const request = { key, claim, leaseMs, owner, ...(isLess && { used }), ...(holdUntil && { holdUntil }) };
    return this.node.watch(this.node.store.release(request));
  }
}

/** The fields that the release of a node lease copies from the request of the core, be it a release or an acquire. */
export type NodeRelease = Pick<ReleaseRequest, 'key' | 'claim' | 'leaseMs' | 'holdUntil'>;
