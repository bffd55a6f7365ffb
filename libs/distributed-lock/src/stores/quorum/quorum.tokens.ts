import { reachedBy } from './quorum.tally.js';

/**
 * How many fencing tokens are reserved beyond those asked for: counters that are no further apart, for nodes with a clock
 * 10 ms, cost no second round. It never grows: what one grant reserves may be what sets the next one's counters apart.
 */
export const SPARE = 10_000;

/** A block of fencing tokens. */
export interface Tokens {
  readonly token: number;
  readonly lastToken: number;
}

/**
 * Fencing tokens for a grant by a majority, larger than those of every grant before it.
 *
 * The first is the largest that any of the nodes gave. It is good only if a majority has reserved it, too: the next
 * majority shares a node with this one, that node's next token is larger than all that it has reserved, and the largest
 * of that majority's is at least as large. So reserving more than was asked for, and giving it back with the end, is a
 * write to a majority that costs no message of its own (docs/decisions/0010).
 */
export class TokenSource {
  /** The largest that this process knows to be used. */
  private floor = 0;

  constructor(private readonly majority: number) {}

  /**
   * @param votes the tokens that each node gave, from a majority at least
   * @returns `undefined` when the counters are so far apart that too few nodes have reserved what the others gave: they
   * must reserve more
   */
  common(votes: readonly Tokens[], count: number): Tokens | undefined {
    const token = Math.max(this.floor + 1, ...votes.map((vote) => vote.token));
    const reserved = reachedBy(
      this.majority,
      votes.map((vote) => vote.lastToken),
    );
    if (reserved < token) return undefined;
    this.used(token);
    return { token, lastToken: Math.min(token + count - 1, reserved) };
  }

  /** Up to which token a majority must reserve theirs to make `common` possible. */
  wanted(votes: readonly Tokens[], count: number): number {
    return Math.max(this.floor + 1, ...votes.map((vote) => vote.token)) + count - 1;
  }

  used(token: number): void {
    this.floor = Math.max(this.floor, token);
  }
}
