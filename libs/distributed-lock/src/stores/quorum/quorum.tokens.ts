import { reachedBy } from './quorum.tally.js';

/** How many fencing tokens are reserved beyond those asked for, at least: for nodes with a clock, 10 ms. */
const FEWEST_SPARE = 10_000;
/** What is left of the spare with each grant, until the counters are found apart again. */
const FORGETTING = 0.9;

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
  /** Reserved beyond what was asked for: by so much the counters of the nodes may differ. */
  spare = 10 * FEWEST_SPARE;

  constructor(private readonly majority: number) {}

  /**
   * @param votes the tokens that each node gave, from a majority at least
   * @returns `undefined` when the counters are so far apart that too few nodes have reserved what the others gave; they
   * must be asked anew, for more
   */
  common(votes: readonly Tokens[], count: number): Tokens | undefined {
    const token = Math.max(this.floor + 1, ...votes.map((vote) => vote.token));
    const apart =
      token -
      reachedBy(
        this.majority,
        votes.map((vote) => vote.token),
      );
    const reserved = reachedBy(
      this.majority,
      votes.map((vote) => vote.lastToken),
    );
    this.spare = Math.max(FEWEST_SPARE, 2 * apart, Math.floor(this.spare * FORGETTING));
    if (reserved < token) return undefined;
    this.used(token);
    return { token, lastToken: Math.min(token + count - 1, reserved) };
  }

  used(token: number): void {
    this.floor = Math.max(this.floor, token);
  }
}
