import type { Grant, ReleaseRequest } from '../../port/lock-store.js';
import { reachedBy } from './majority.js';
import type { NodeOwner } from './node-owner.js';
import type { QuorumContext } from './quorum.context.js';
import { maxOf } from '../../collections/extremes.js';

/**
 * How many fencing tokens each node reserves beyond those asked for. Nodes whose counters differ by less, which is 10 ms of their
 * clocks, need no second round, and a lease that comes so much later belongs to the grant at once. Fixed, because the tokens that
 * one grant reserves set the counters apart for the next one. Not more, because a grant that is never given back moves the tokens
 * ahead of the clock by as much: with ten times as many, faults moved them 12 s ahead.
 */
export const SPARE_TOKENS = 10_000;

/** The node leases of one owner, and whether a majority of them makes it the holder. */
export class NodeLeases {
  /** The last fencing token that may have been used. */
  lastUsed = 0;
  private held: Held | undefined;

  constructor(
    private readonly nodes: readonly NodeOwner[],
    private readonly context: QuorumContext,
  ) {}

  /** The owner holds under this token, and a majority of the leases is left. */
  isHeld(token = this.held?.token): boolean {
    return this.held?.token === token && this.isMajority(this.counted());
  }

  /** Whether the owner holds already, under the same grant, by the leases of these nodes. */
  isConfirmedBy(granted: readonly NodeOwner[]): boolean {
    return this.isMajority(granted.filter((node) => this.counts(node)));
  }

  /** The largest of the nodes' first tokens, or one more than the largest token that this process knows to be used. */
  nextToken(granted: readonly NodeOwner[]): number {
    return Math.max(this.context.minToken + 1, maxOf(leasesOf(granted).map((lease) => lease.token)));
  }

  /**
   * The owner holds from now on, under this token, if a majority has reserved it.
   *
   * The majority of the next grant shares a node with this one. The shared node's next token is larger than all that it has
   * reserved, so the token of the next grant is larger, too (docs/decisions/0010).
   *
   * @param token of `nextToken`. A second round must ask for the same one, because other keys may have used larger ones by then
   * @returns whether a majority has reserved it
   */
  hold(granted: readonly NodeOwner[], token: number, tokens: number): boolean {
    const { context } = this;
    const reserving = leasesOf(granted).filter((it) => it.token <= token && it.lastToken >= token);
    if (!this.isMajority(reserving)) return false;
    const reserved = this.reachedBy(reserving, ({ lastToken }) => lastToken);
    context.minToken = Math.max(context.minToken, token);
    const lastToken = Math.min(token + tokens - 1, reserved);
    this.held = { token, lastToken, reserved, nodes: tokensOf(granted) };
    this.lastUsed = this.held.lastToken;
    return true;
  }

  /**
   * Counts each node lease that came while the lock was held, if its token proves that its node granted nobody else a lock since:
   * the token of every later grant is larger than those that a majority has reserved for this one, and that grant's nodes have
   * reserved it, so that any lease which they give after it has a larger token still.
   */
  join(): void {
    for (const [node, token] of this.newcomers()) {
      if (this.held && token <= this.held.reserved) this.held.nodes.set(node, token);
    }
  }

  /**
   * The node leases that came while the lock was held and do not count yet. Before they came, a release by force may have freed
   * the other nodes, and another owner may have held the lock, so that this owner would never learn of its loss.
   *
   * @returns the nodes, with the token that each gave
   */
  newcomers(): ReadonlyMap<NodeOwner, number> {
    return tokensOf(this.nodes.filter((node) => !this.counts(node)));
  }

  /** Counts newcomers, when a majority of the counted leases has been renewed after each of them had come. */
  confirm(newcomers: ReadonlyMap<NodeOwner, number>): void {
    for (const [node, token] of newcomers) this.held?.nodes.set(node, token);
  }

  drop(): void {
    this.held = undefined;
  }

  /** The nodes whose leases count for the grant. */
  counted(): NodeOwner[] {
    return this.nodes.filter((node) => this.counts(node));
  }

  /** The lock is valid for as long as a majority of its leases. */
  grant(): Grant {
    const { token, lastToken } = this.held as Held;
    const counted = this.counted();
    const validUntil = this.validUntil(counted);
    const waiting = maxOf(leasesOf(counted).map((lease) => lease.waiting));
    return { kind: 'granted', token, lastToken, validUntil, waiting, confirmed: true };
  }

  /** Until when a majority of these leases is valid. */
  validUntil(granted: readonly NodeOwner[]): number {
    return this.reachedBy(leasesOf(granted), (lease) => lease.validUntil);
  }

  onReleased(used: ReleaseRequest['used']): void {
    if (used && used.lastToken === this.held?.lastToken) this.lastUsed = used.token;
    this.context.minToken = Math.max(this.context.minToken, this.lastUsed);
    this.drop();
  }

  private counts(node: NodeOwner): boolean {
    return node.lease !== undefined && this.held?.nodes.get(node) === node.lease.token;
  }

  private isMajority({ length }: readonly unknown[]): boolean {
    return length >= this.context.majority;
  }

  private reachedBy(leases: readonly Grant[], valueOf: (lease: Grant) => number): number {
    return reachedBy(this.context.majority, leases.map(valueOf));
  }
}

interface Held {
  readonly token: number;
  readonly lastToken: number;
  /** Up to which a majority has reserved tokens. The token of the next grant, whoever gets it, is larger. */
  readonly reserved: number;
  /** The nodes whose leases count, with the token that each gave: under another token it is another grant. */
  readonly nodes: Map<NodeOwner, number>;
}

function tokensOf(nodes: readonly NodeOwner[]): Map<NodeOwner, number> {
  return new Map(nodes.flatMap((node) => (node.lease ? [[node, node.lease.token]] : [])));
}

function leasesOf(nodes: readonly NodeOwner[]): Grant[] {
  return nodes.flatMap(({ lease }) => lease ?? []);
}
