import { type Chance, type Clock, Delays } from '../common/clock.js';
import { maxOf } from '../common/collections.js';
import type {
  AcquireReply,
  AcquireRequest,
  Grant,
  LockStore,
  ReleaseReply,
  ReleaseRequest,
  Renewal,
  RenewalReply,
} from '../port/lock-store.js';
import { leaseValidity } from '../port/timing.js';
import { ownerHasLeftError, type QuorumContext, type QuorumNode, reachedBy } from './context.js';

/**
 * One owner at one node: in its queue, or with a node lease.
 *
 * Each attempt at the node has an id of its own, from its first acquire to its release. The node's store repeats the release until
 * no acquire of that id can be executed any more, so a late reply to an earlier id can be ignored.
 */
export class NodeOwner {
  /** The node lease as the node's last answer describes it; `undefined` if the node has granted none. */
  lease: Grant | undefined;
  /** Whether the node may know the present id: an acquire was sent with it, and no release yet. */
  isOpen = false;
  private id: string;
  private acquires = new OwnerQueue();
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
      if (!this.isNamed(id)) throw ownerHasLeftError(request.key);
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
    this.acquires = new OwnerQueue();
    const used = lease && { token: Math.max(lease.token - 1, lastUsed), lastToken: lease.lastToken };
    const isLess = used && used.token < used.lastToken;
    const request = { key, claim, leaseMs, owner, ...(isLess && { used }), ...(holdUntil && { holdUntil }) };
    return this.node.watch(this.node.store.release(request));
  }
}

/** The fields that the release of a node lease copies from the request of the core, be it a release or an acquire. */
export type NodeRelease = Pick<ReleaseRequest, 'key' | 'claim' | 'leaseMs' | 'holdUntil'>;

/** Runs one step after the other. A step that fails does not keep back the next one. */
class OwnerQueue {
  private last: Promise<unknown> = Promise.resolve();
  private count = 0;

  /** No step runs or waits. */
  get isIdle(): boolean {
    return this.count === 0;
  }

  async run<T>(step: () => Promise<T>): Promise<T> {
    this.count += 1;
    const mine = this.last.then(step);
    this.last = mine.catch(() => undefined);
    try {
      return await mine;
    } finally {
      this.count -= 1;
    }
  }
}

/** The request and the node leases of one owner. Only `acquire`, `renew`, `release` and `onNotification` change them. */
export class QuorumOwner {
  readonly nodes: readonly NodeOwner[];
  readonly leases: NodeLeases;
  /** One attempt at a time, so that each counts the node leases that the one before has left. */
  readonly attempts = new OwnerQueue();
  readonly pauses: Delays;
  /** The last request of the core. */
  request: AcquireRequest | undefined;
  /** Until when the most patient caller waits. */
  deadline = 0;
  /** One ticket for all nodes, so that their queues have the same order. */
  ticket = 0;
  hasLeft = false;
  /** A notification has requested an attempt that has not begun yet. */
  isAttemptDue = false;
  /** Renewals that have no majority of answers yet. */
  renewalsUnderWay = 0;
  cancelGivingBack: (() => void) | undefined;
  cancelConfirming: (() => void) | undefined;

  constructor(
    readonly name: string,
    readonly context: QuorumContext,
  ) {
    const { nodes, clock } = context;
    this.pauses = new Delays(clock);
    this.nodes = nodes.map(
      (node) => new NodeOwner(node, clock, () => attemptId(node.store, name, context.nextAttempt())),
    );
    this.leases = new NodeLeases(this.nodes, context);
  }

  /** No node knows it, and no attempt is under way. */
  get isIdle(): boolean {
    return this.attempts.isIdle && this.nodes.every(({ isOpen }) => !isOpen);
  }

  /** Called when the caller has left. No attempt follows, and no timer is left. */
  leave(): void {
    this.hasLeft = true;
    this.cancelGivingBack?.();
    this.cancelConfirming?.();
    this.pauses.endAll();
  }
}

/**
 * How many fencing tokens each node reserves beyond those that the owner requests. A token is a time of the node in µs, so nodes
 * whose counters differ by up to 10 ms need no second round, and a node lease that comes that much later counts for the grant at
 * once. The number is fixed, because the tokens that one grant reserves set the counters apart for the next one. It is no larger,
 * because a grant that is never given back moves the tokens ahead of the clock by as much: with ten times as many, faults moved
 * them 12 s ahead.
 */
export const SPARE_TOKENS = 10_000;

/** The node leases of one owner, and whether a majority of them makes it the holder. */
class NodeLeases {
  /** The last fencing token that may have been used. */
  lastUsed = 0;
  private held: Held | undefined;

  constructor(
    private readonly nodes: readonly NodeOwner[],
    private readonly context: QuorumContext,
  ) {}

  /** Whether the owner holds under this token, and a majority of its leases is left. */
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
   * Makes the owner the holder, under this token, if a majority has reserved it.
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
   * Counts each node lease that came while the lock was held, if its token proves that its node granted nobody else a lock since.
   * Every later grant has a larger token than those that a majority has reserved for this one. The nodes of that grant have
   * reserved its token, so any lease that they give after it has a token that is larger still.
   */
  join(): void {
    for (const [node, token] of this.newcomers()) {
      if (this.held && token <= this.held.reserved) this.held.nodes.set(node, token);
    }
  }

  /**
   * The node leases that came while the lock was held and do not count yet. Before they came, a release by force may have freed the
   * other nodes, and another owner may have held the lock. If they counted at once, this owner would never learn of that loss.
   *
   * @returns the nodes, with the token that each gave
   */
  newcomers(): ReadonlyMap<NodeOwner, number> {
    return tokensOf(this.nodes.filter((node) => !this.counts(node)));
  }

  /** Counts newcomers. Call it when a majority of the counted leases was renewed after the newcomers had come. */
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

  /** The grant of the lock, which is valid for as long as a majority of its leases. */
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
  /** A majority of the nodes has reserved all tokens up to this one. The token of the next grant, whoever gets it, is larger. */
  readonly reserved: number;
  /** The nodes whose leases count, each with the token of its lease. A lease with another token belongs to another grant. */
  readonly nodes: Map<NodeOwner, number>;
}

function tokensOf(nodes: readonly NodeOwner[]): Map<NodeOwner, number> {
  return new Map(nodes.flatMap((node) => (node.lease ? [[node, node.lease.token]] : [])));
}

function leasesOf(nodes: readonly NodeOwner[]): Grant[] {
  return nodes.flatMap(({ lease }) => lease ?? []);
}

/**
 * The number of an attempt is made of three counts, each with this many digits: the quorum's client, the owner (which may have more
 * digits) and the attempt. Attempts are counted from 0 again after a billion. By then no message of the earlier attempt with the
 * same number is under way.
 */
const DIGITS = { client: 4, count: 7, attempt: 9 };
const ATTEMPT = new RegExp(`:(-?)((\\d{${DIGITS.client}})(\\d{${DIGITS.count},}))\\d{${DIGITS.attempt}}$`);

/**
 * Makes the id of this client of the quorum, for messages, `inspect` and holder entries only. Two clients may get the same one:
 * that does no harm, because the id of an attempt at a node begins with the id of the node's own client.
 */
export function newQuorumId(chance: Chance): string {
  const smallest = 10 ** (DIGITS.client - 1);
  return `quorum-${smallest + Math.floor(chance.random() * 9 * smallest)}`;
}

/**
 * The id of an owner's attempt at one node. It begins with the id of the node's own client, which receives its
 * notifications. The number names the owner, so that it can be recognised at every node, and the attempt, so that a late
 * command of an earlier attempt cannot touch a later one.
 */
function attemptId(node: LockStore, owner: string, attempt: number): string {
  const number = String(attempt % 10 ** DIGITS.attempt).padStart(DIGITS.attempt, '0');
  return `${node.clientId}:${ownerNumberOf(owner)}${number}`;
}

/** The owner to which this attempt belongs. A foreign client keeps its own name. */
export function ownerOf(attempt: string): string {
  const [, keeper, , client, count] = ATTEMPT.exec(attempt) ?? [];
  return client === undefined ? attempt : `quorum-${client}:${keeper}${BigInt(count ?? 0)}`;
}

/** The same number for an owner and for all its attempts. */
export function ownerNumberOf(owner: string): string {
  const [client = '', count = ''] = owner.slice(owner.indexOf('-') + 1).split(':');
  return client + count.padStart(DIGITS.count, '0');
}

export function numberOfAttempt(attempt: string): string {
  return ATTEMPT.exec(attempt)?.[2] ?? '';
}
