import type { Grant } from '../../port/lock-store.js';
import type { NodeOwner } from './quorum.ballot.js';
import { reachedBy } from './quorum.tally.js';
import type { Tokens, TokenSource } from './quorum.tokens.js';

interface Held extends Tokens {
  /** The votes that make it up, each by the token that its node gave: under another one it is another grant. */
  readonly votes: Map<NodeOwner, number>;
}

/** What one owner has of all nodes, and whether that is a majority. */
export class NodeLeases {
  private held: Held | undefined;
  /** The largest fencing token that may have been used. */
  private spent = 0;

  constructor(
    readonly ballots: readonly NodeOwner[],
    private readonly majority: number,
    private readonly source: TokenSource,
  ) {}

  /** The first token of what is held. */
  get token(): number | undefined {
    return this.held?.token;
  }

  /** Nodes whose lease runs for us at `now`, enough of them or not. */
  at(now: number): NodeOwner[] {
    return this.ballots.filter(({ lease: vote }) => vote && vote.validUntil > now);
  }

  /**
   * A majority has voted for us.
   *
   * It is the same grant as before only if a majority says so now; otherwise it was lost in between, and its tokens are
   * new ones.
   *
   * @returns `undefined` when the nodes' tokens are too far apart
   */
  win(voters: readonly NodeOwner[], answered: ReadonlySet<NodeOwner>, tokens: number): Grant | undefined {
    const votes = voters.map(voteOf);
    const kept = voters.filter((ballot) => answered.has(ballot) && this.counts(ballot));
    if (kept.length < this.majority) {
      const common = this.source.common(votes, tokens);
      this.held = common && { ...common, votes: new Map() };
      if (!this.held) return undefined;
      this.spent = this.held.lastToken;
    }
    const held = this.held as Held;
    for (const ballot of voters) held.votes.set(ballot, voteOf(ballot).token);
    const { token, lastToken } = held;
    return { kind: 'granted', token, lastToken, confirmed: true, ...this.standing() };
  }

  /** Up to which token the nodes must reserve theirs when they are too far apart. */
  tokensWanted(voters: readonly NodeOwner[], tokens: number): number {
    return this.source.wanted(voters.map(voteOf), tokens);
  }

  /** Those that make up what is held, as far as they are left. */
  counted(): NodeOwner[] {
    return this.ballots.filter((ballot) => this.counts(ballot));
  }

  /** One more for what is held, if it is held still. */
  join(ballot: NodeOwner): void {
    if (this.isHeld() && ballot.lease) this.held?.votes.set(ballot, ballot.lease.token);
  }

  /** What the majority of the votes is worth: valid for as long as so many are. */
  standing(): Pick<Grant, 'validUntil' | 'waiting'> {
    const votes = this.counted().map(voteOf);
    const validUntil = reachedBy(
      this.majority,
      votes.map((vote) => vote.validUntil),
    );
    return { validUntil, waiting: Math.max(...votes.map((vote) => vote.waiting)) };
  }

  /** Whether a majority is left; without it nothing is held any more. */
  isHeld(): boolean {
    if (this.counted().length < this.majority) this.held = undefined;
    return this.held !== undefined;
  }

  drop(): void {
    this.held = undefined;
  }

  /** @param used of a grant that is given back: its last token, and the last that was used */
  spend(used: Tokens | undefined): number {
    if (used && used.lastToken === this.held?.lastToken) this.spent = used.token;
    this.source.used(this.spent);
    return this.spent;
  }

  /** What the nodes need not keep in reserve. */
  get lastSpent(): number {
    return this.spent;
  }

  private counts(ballot: NodeOwner): boolean {
    return ballot.lease !== undefined && this.held?.votes.get(ballot) === ballot.lease.token;
  }
}

function voteOf(ballot: NodeOwner): Grant {
  return ballot.lease as Grant;
}
