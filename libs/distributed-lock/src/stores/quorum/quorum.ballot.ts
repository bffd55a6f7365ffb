import type { Clock } from '../../lock/clock.js';
import type {
  AcquireReply,
  Ask,
  End,
  EndReply,
  Grant,
  Renewal,
  RenewalReply,
} from '../../lock/lock-store.js';
import { leaseValidity } from '../../lock/validity.js';
import type { QuorumNode } from './quorum.node.js';

/** What every command says of a lock. */
export type Identity = Pick<End, 'key' | 'claim' | 'leaseMs'>;

/**
 * One owner at one node: in its line, or with its vote, which is the lease that the node has granted.
 *
 * Each stay at the node has an id of its own. Giving up a stay ends its id, for certain and in the background, so that
 * answers that come late give back what they took.
 */
export class Ballot {
  private id: string;
  private isThere = false;
  private asked = 0;
  private answered = 0;
  /** As the node answered last. */
  vote: Grant | undefined;

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

  async ask(ask: Ask): Promise<AcquireReply> {
    const { id } = this;
    const number = ++this.asked;
    this.isThere = true;
    const reply = await this.node.hear(this.node.store.acquire({ ...ask, owner: id }));
    // Answers may overtake each other; what answers an earlier stay is given back with it.
    if (this.isNamed(id) && number > this.answered) {
      this.answered = number;
      this.vote = reply.kind === 'granted' ? reply : undefined;
    }
    return reply;
  }

  /** For a ballot with a vote. */
  async renew(renewal: Identity & Pick<Renewal, 'isLast' | 'isAwaited'>): Promise<RenewalReply> {
    const { id } = this;
    const { token, lastToken } = this.vote as Grant;
    const sentAt = this.clock.now();
    const [reply] = await this.node.store.renew([{ ...renewal, owner: id, token, lastToken }]);
    if (this.isNamed(id) && this.vote?.token === token)
      this.vote = renewed(this.vote, reply, sentAt, renewal);
    if (reply?.kind === 'unknown') {
      this.node.onFailure(reply.error);
      throw reply.error;
    }
    return reply as RenewalReply;
  }

  /** @param spent the largest fencing token that this owner has used; what the node has reserved beyond it goes back */
  leave(identity: Identity, spent: number): Promise<EndReply> {
    if (!this.isThere) return Promise.resolve('not held');
    const { id, vote } = this;
    this.isThere = false;
    this.id = this.nextId();
    this.vote = undefined;
    const token = vote && Math.max(vote.token - 1, spent);
    const used =
      vote && token !== undefined && token < vote.lastToken
        ? { token, lastToken: vote.lastToken }
        : undefined;
    return this.node.hear(this.node.store.end({ ...identity, owner: id, ...(used && { used }) }));
  }

  lose(): void {
    this.vote = undefined;
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
