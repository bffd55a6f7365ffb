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
import {
  answersOf,
  gather,
  haveAnswered,
  type Outcomes,
  ownerHasLeftError,
  type QuorumContext,
  type QuorumNode,
  reachedBy,
} from './context.js';

/**
 * One owner at one node: it waits in the node's queue, or has a node lease.
 *
 * Each attempt at the node has an id of its own, from its first acquire to its release. The node's store repeats the release until no
 * acquire of that id can be executed any more, so a late reply to an earlier id can be ignored.
 */
export class NodeOwner {
  /** The node lease as the node's last answer describes it; `undefined` if the node has granted none. */
  lease: Grant | undefined;
  /** Whether the node may know the present id: an acquire was sent with it, and no release yet. */
  isOpen = false;
  private id: string;
  private acquires = new OwnerQueue();
  private renewalsSent = 0;
  /** The number of the latest renewal that the node has answered. */
  private renewalAnswered = 0;

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
   * Sends one acquire request at a time. The Redis store counts one request in flight for each owner id. If two were in flight, it would
   * go on counting the first as unanswered until its deadline (`notAfter`), and would repeat a release until then.
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
      // One of two cases. This renewal got no reply, so the node may or may not have executed it. Or a later renewal is in flight, and the
      // node may execute that one last. Either way trust only the earlier of the two ends. If a later renewal has been answered, its end
      // counts and this one says nothing: the node's store replies `renewed` only when no earlier renewal can shorten the lease any more.
      else if (number > this.renewalAnswered)
        this.lease = { ...lease, validUntil: Math.min(lease.validUntil, validUntil), waiting };
      if (isAnswered) this.renewalAnswered = Math.max(this.renewalAnswered, number);
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
type NodeRelease = Pick<ReleaseRequest, 'key' | 'claim' | 'leaseMs' | 'holdUntil'>;

/** Runs one step after the other. If a step fails, the next one runs nevertheless. */
class OwnerQueue {
  private last: Promise<unknown> = Promise.resolve();
  private count = 0;

  /** Whether no step runs or waits to run. */
  get isIdle(): boolean {
    return this.count === 0;
  }

  async run<T>(step: () => Promise<T>): Promise<T> {
    this.count += 1;
    const result = this.last.then(step);
    this.last = result.catch(() => undefined);
    try {
      return await result;
    } finally {
      this.count -= 1;
    }
  }
}

/** The request and the node leases of one owner. Only `acquire`, `renew`, `release` and `onNotification` change them. */
export class QuorumOwner {
  readonly nodes: readonly NodeOwner[];
  readonly leases: NodeLeases;
  /** Runs one attempt at a time, so that each starts from the node leases that the attempt before has left. */
  readonly attempts = new OwnerQueue();
  readonly pauses: Delays;
  /** The latest acquire request of the core, with claim and lease as the latest renewal has changed them. */
  request: AcquireRequest | undefined;
  /** One ticket for all nodes, so that their queues have the same order. */
  ticket = 0;
  hasLeft = false;
  /** True from a notification that requests another attempt until that attempt begins. */
  isAttemptDue = false;
  /** In the last attempt a majority of the nodes named one holder, so that to ask again soon would get no majority. */
  isBehindHolder = false;
  /** How many renewals are in flight that no majority has answered yet. */
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

  /** True if no node knows this owner and no attempt is under way. The store then forgets the owner. */
  get isIdle(): boolean {
    return this.attempts.isIdle && this.nodes.every(({ isOpen }) => !isOpen);
  }

  /** Releases at all nodes. @param needed after `nodeTimeoutMs`, stop waiting as soon as this many have answered */
  releaseAll(request: NodeRelease, needed = 0): Promise<Outcomes<ReleaseReply>> {
    const { clock, nodeTimeoutMs: ms } = this.context;
    return gather(
      this.nodes.map((node) => this.releaseNode(node, request)),
      (collected, isLate) =>
        haveAnswered(this.context, collected) || (isLate && answersOf(collected).length >= needed),
      { clock, ms },
    );
  }

  /** Releases at one node. The node's store repeats the release even after the caller has stopped waiting for it. */
  releaseNode(node: NodeOwner, request: NodeRelease): Promise<ReleaseReply> {
    const released = node.release(request, this.leases.lastUsed);
    this.context.inBackground(released);
    return released;
  }

  /** Called when the owner is released. Cancels its timers and pauses, and stops further attempts. */
  leave(): void {
    this.hasLeft = true;
    this.cancelGivingBack?.();
    this.cancelConfirming?.();
    this.pauses.endAll();
  }
}

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

  /** Whether the owner holds already, and the leases of these nodes that belong to its present grant are a majority. */
  isConfirmedBy(granted: readonly NodeOwner[]): boolean {
    return this.isMajority(granted.filter((node) => this.counts(node)));
  }

  /** Returns the token for a new grant: the largest of the nodes' first tokens, or one more than the largest token known to be used. */
  nextToken(granted: readonly NodeOwner[]): number {
    return Math.max(this.context.minToken + 1, maxOf(leasesOf(granted).map((lease) => lease.token)));
  }

  /**
   * Makes the owner the holder, under this token, if a majority has reserved it.
   *
   * The majority of the next grant shares a node with this one. The shared node's next token is larger than all that it has reserved, so
   * the token of the next grant is larger, too (docs/decisions/0010).
   *
   * @param token from `nextToken`. A second round must pass the token of the first, because `nextToken` may return a larger one by then
   * @returns whether a majority has reserved it
   */
  hold(granted: readonly NodeOwner[], token: number, tokens: number): boolean {
    const { context } = this;
    const reserving = leasesOf(granted).filter((lease) => lease.token <= token && lease.lastToken >= token);
    if (!this.isMajority(reserving)) return false;
    const reserved = this.reachedBy(reserving, ({ lastToken }) => lastToken);
    context.minToken = Math.max(context.minToken, token);
    const lastToken = Math.min(token + tokens - 1, reserved);
    this.held = { token, lastToken, reserved, nodes: tokensOf(granted) };
    this.lastUsed = this.held.lastToken;
    return true;
  }

  /**
   * Returns the newcomers: node leases that came while the lock was held and do not count yet. Before they came, a release by force may
   * have freed the other nodes, and another owner may have held the lock. If they counted at once, this owner would never learn of that
   * loss.
   *
   * @returns the nodes, with the token that each gave
   */
  newcomers(): ReadonlyMap<NodeOwner, number> {
    return tokensOf(this.nodes.filter((node) => !this.counts(node)));
  }

  /**
   * Counts each newcomer whose token proves that its node granted nobody else the lock since this grant: the token is one of those that a
   * majority has reserved for this grant. A later grant to somebody else has a larger token. Its nodes have reserved that one, so every
   * lease that they give afterwards has a still larger token.
   */
  join(): void {
    for (const [node, token] of this.newcomers()) {
      if (this.held && token <= this.held.reserved) this.held.nodes.set(node, token);
    }
  }

  /**
   * Makes these newcomers count. Call it only if a majority of the leases that counted before was renewed after they had come: that shows
   * that the owner never lost the lock.
   */
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
 * The id of an attempt ends in three counts, each with this many digits: the client of the quorum, the owner (with more digits, if it
 * needs them) and the attempt. After a billion attempts the last count starts again from 0. By then no message of the earlier attempt
 * with the same number is in flight.
 */
const DIGITS = { client: 4, count: 7, attempt: 9 };
const ATTEMPT = new RegExp(`:(-?)((\\d{${DIGITS.client}})(\\d{${DIGITS.count},}))\\d{${DIGITS.attempt}}$`);

/**
 * Makes the id of this client of the quorum, which people read in messages and `inspect`, and holder entries use. If two clients get the
 * same id, no lock is in danger, because the id of an attempt at a node begins with the id of the node's own client.
 */
export function newQuorumId(chance: Chance): string {
  const smallest = 10 ** (DIGITS.client - 1);
  return `quorum-${smallest + Math.floor(chance.random() * 9 * smallest)}`;
}

/**
 * Makes the id of an owner's attempt at one node. It begins with the id of the node's own client, so that this client receives the
 * notifications. The number after that names the owner, so that all nodes name the same one, and the attempt, so that a late command of
 * an earlier attempt does not affect a later one.
 */
function attemptId(node: LockStore, owner: string, attempt: number): string {
  const number = String(attempt % 10 ** DIGITS.attempt).padStart(DIGITS.attempt, '0');
  return `${node.clientId}:${ownerNumberOf(owner)}${number}`;
}

/** Returns the owner id to which this attempt belongs. The id of a foreign client is returned as it is. */
export function ownerOf(attempt: string): string {
  const [, keeper, , client, count] = ATTEMPT.exec(attempt) ?? [];
  return client === undefined ? attempt : `quorum-${client}:${keeper}${BigInt(count ?? 0)}`;
}

/** Returns the part of an id that names the owner. It is the same in the id of the owner and in those of all its attempts. */
export function ownerNumberOf(owner: string): string {
  const [client = '', count = ''] = owner.slice(owner.indexOf('-') + 1).split(':');
  return client + count.padStart(DIGITS.count, '0');
}

export function numberOfAttempt(attempt: string): string {
  return ATTEMPT.exec(attempt)?.[2] ?? '';
}
