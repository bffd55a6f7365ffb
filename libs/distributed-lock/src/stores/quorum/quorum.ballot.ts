import type { Clock } from '../../time/clock.js';
import type {
  AcquireReply,
  AcquireRequest,
  ReleaseRequest,
  ReleaseReply,
  Grant,
  RenewalReply,
} from '../../port/lock-store.js';
import { leaseValidity } from '../../port/lease-validity.js';
import type { QuorumNode } from './quorum.node.js';

/** What every command says of a lock. */
export type Identity = Pick<ReleaseRequest, 'key' | 'claim' | 'leaseMs'>;

/**
 * One owner at one node: in its line, or with its vote, which is the lease that the node has granted.
 *
 * Each stay at the node has an id of its own. Giving up a stay ends its id, for certain and in the background, so that
 * answers that come late give back what they took.
 */
export class NodeOwner {
  private id: string;
  private isThere = false;
  private asked = 0;
  private answered = 0;
  /** As the node answered last. */
  lease: Grant | undefined;

  constructor(
    readonly node: QuorumNode,
    private readonly clock: Clock,
    private readonly nextId: () => string,
  ) {
    this.id = nextId();
  }

  /** The node may know this stay. */
  get isOpen(): boolean {
    return this.isThere;
  }

  isNamed(id: string): boolean {
    return this.isThere && this.id === id;
  }

  async ask(ask: AcquireRequest): Promise<AcquireReply> {
    const { id } = this;
    const number = ++this.asked;
    this.isThere = true;
    const reply = await this.node.hear(this.node.store.acquire({ ...ask, owner: id }));
    // Answers may overtake each other; what answers an earlier stay is given back with it.
    if (this.isNamed(id) && number > this.answered) {
      this.answered = number;
      this.lease = reply.kind === 'granted' ? reply : undefined;
    }
    return reply;
  }

  /** For a ballot with a vote. */
  async renew(renewal: Identity): Promise<RenewalReply> {
    const { id } = this;
    const { token, lastToken } = this.lease as Grant;
    const sentAt = this.clock.now();
    const [reply] = await this.node.store.renew([{ ...renewal, owner: id, token, lastToken }]);
    if (this.isNamed(id) && this.lease?.token === token)
      this.lease = renewed(this.lease, reply, sentAt, renewal);
    if (reply?.kind === 'unknown') {
      this.node.onFailure(reply.error);
      throw reply.error;
    }
    return reply as RenewalReply;
  }

  /** @param spent the largest fencing token that this owner has used; what the node has reserved beyond it goes back */
  leave(command: Identity & Pick<ReleaseRequest, 'keepUntil'>, spent: number): Promise<ReleaseReply> {
    if (!this.isThere) return Promise.resolve('not held');
    const { id, lease: vote } = this;
    this.isThere = false;
    this.id = this.nextId();
    this.lease = undefined;
    const token = vote && Math.max(vote.token - 1, spent);
    const used =
      vote && token !== undefined && token < vote.lastToken
        ? { token, lastToken: vote.lastToken }
        : undefined;
    return this.node.hear(this.node.store.release({ ...command, owner: id, ...(used && { used }) }));
  }

  lose(): void {
    this.lease = undefined;
  }
}

/** What is left of a vote after a renewal; one that was not answered may have set either lease. */
function renewed(
  vote: Grant,
  reply: RenewalReply | undefined,
  sentAt: number,
  { leaseMs }: Identity,
): Grant | undefined {
  if (reply?.kind === 'lost') return undefined;
  if (reply?.kind === 'renewed') {
    return { ...vote, validUntil: reply.validUntil, waiting: reply.waiting, confirmed: true };
  }
  return { ...vote, validUntil: Math.min(vote.validUntil, leaseValidity(sentAt, leaseMs)) };
}
