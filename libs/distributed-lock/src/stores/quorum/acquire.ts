import { randomMs } from '../../time/chance.js';
import { inBackground } from '../../async-context/in-background.js';
import type { AcquireReply, AcquireRequest, Grant } from '../../port/lock-store.js';
import { answersOf, count, gather, type Outcomes } from './majority.js';
import { SPARE_TOKENS } from './node-leases.js';
import { confirmSoon } from './confirm.js';
import type { NodeOwner } from './node-owner.js';
import { haveAnswered } from './quorum.context.js';
import { ownerHasLeft, noMajority, tokensTooFarApart } from './quorum.errors.js';
import type { QuorumOwner } from './quorum.owner.js';
import { busyReply, holderOf, queuedReply } from './refusals.js';
import { giveBackSoon, releaseAll, SPLIT_MS } from './release.js';

/** When to ask again after an attempt that no majority answered. */
const FAILED_RECHECK_MS = 50;

/**
 * Acquires as Redlock does, with the nodes' queues in place of polling:
 *
 * 1. The owner asks all nodes at once.
 * 2. With node leases of a majority it holds. Each lease is valid from the moment of asking, less the clock drift.
 * 3. With fewer, an owner that waits stays in the nodes' queues. Each owner has one ticket for all nodes, so all queues have the
 *    same order, and a release grants the same owner at every node. The first node's notification starts the next attempt.
 * 4. With fewer, an owner that asks once, or that too many nodes refuse for `maxWaiting`, gives back its node leases. If owners
 *    have split the nodes, an owner that asks once tries again after a random pause.
 *
 * @throws LockStoreError when fewer than a majority answer; then the owner has left all nodes
 */
export function acquire(owner: QuorumOwner, request: AcquireRequest): Promise<AcquireReply> {
  owner.request = request;
  owner.deadline = owner.context.clock.now() + request.waitMs;
  const { leases } = owner;
  const wasHeld = leases.isHeld();
  // An attempt that a notification has begun may be granted the lock before the turn of this one, and its caller may have downgraded it
  // by then: the nodes would refuse a request for what it was, and the owner would lose its leases.
  return inTurn(owner, async () =>
    leases.isHeld() && !wasHeld ? leases.grant() : attemptUntilClear(owner, request),
  );
}

/** Asks all nodes again: one node has granted because the holder has released, so the other nodes may grant as well. */
export function attemptAgain(owner: QuorumOwner): void {
  const { context, name } = owner;
  if (owner.isAttemptDue) return;
  owner.isAttemptDue = true;
  const attempted = inTurn(owner, async () => {
    owner.isAttemptDue = false;
    const { request, deadline, leases } = owner;
    if (!request || owner.hasLeft || leases.isHeld()) return;
    const waitMs = Math.max(1, deadline - context.clock.now());
    // The owner waits already, so a node that has refused it for `maxWaiting` before takes it into its queue now.
    const { maxWaiting: _, ...unlimited } = request;
    const reply = await attemptUntilClear(owner, { ...unlimited, waitMs });
    if (reply.kind === 'granted') context.notify({ ...reply, owner: name });
  });
  inBackground(attempted, () => context.notify({ kind: 'recheck', owner: name, afterMs: FAILED_RECHECK_MS }));
}

async function inTurn<T>(owner: QuorumOwner, step: () => Promise<T>): Promise<T> {
  try {
    return await owner.attempts.run(step);
  } finally {
    settleLeases(owner);
  }
}

/** After the last attempt the node leases count for the lock that is held, if need be by a confirmation, or are given back. */
function settleLeases(owner: QuorumOwner): void {
  const { attempts, leases, nodes } = owner;
  if (!attempts.isIdle) return;
  if (leases.isHeld()) {
    leases.join();
    confirmSoon(owner);
  } else if (nodes.some(({ lease }) => lease)) giveBackSoon(owner);
}

async function attemptUntilClear(owner: QuorumOwner, request: AcquireRequest): Promise<AcquireReply> {
  const { clock, chance, nodeTimeoutMs, majority, nodes } = owner.context;
  const startedAt = clock.now();
  for (;;) {
    const sentAt = clock.now();
    const outcomes = await attempt(owner, request);
    const now = clock.now();
    // A lease of an earlier attempt counts, too, so that a holder keeps its lock while some nodes do not answer.
    const valid = owner.nodes.filter(({ lease }) => lease && lease.validUntil > now);
    const mayRetry = request.waitMs === 0 && now - startedAt < nodeTimeoutMs;
    // Also counts grants that arrived after their leases had ended, so that the caller learns that its lease is too short.
    const late = mayRetry ? [] : grantedBy(owner, outcomes);
    const granted = valid.length >= majority ? valid : late;
    if (granted.length >= majority) {
      return hold(owner, granted, request);
    }
    owner.leases.drop();
    const replies = answersOf(outcomes);
    const mayWait = request.waitMs > 0 && count(replies, 'busy') <= nodes.length - majority;
    if (mayWait && replies.length >= majority) return queuedReply(replies, owner.ticket, majority);
    const released = releaseAll(owner, request);
    if (replies.length < majority) throw noMajority(nodes, outcomes, request.key);
    // Several owners have split the nodes, or this one does not wait and its grants came too late to be valid.
    const isSplit = count(replies, 'granted') > 0 && !holderOf(replies, majority);
    if (!isSplit || !mayRetry) return busyReply(replies, majority);
    await Promise.all([released, owner.pauses.wait(clock.now() - sentAt + randomMs(chance, SPLIT_MS))]);
  }
}

/** The nodes that have granted in this attempt, whether or not their leases are over by now. */
function grantedBy({ nodes }: QuorumOwner, outcomes: Outcomes<AcquireReply>): readonly NodeOwner[] {
  return nodes.filter((node, i) => {
    const outcome = outcomes[i];
    return node.lease && outcome?.status === 'fulfilled' && outcome.value.kind === 'granted';
  });
}

/** Asks all nodes at once. Waits until the answers decide who holds. */
async function attempt(owner: QuorumOwner, request: AcquireRequest): Promise<Outcomes<AcquireReply>> {
  const { context } = owner;
  const { majority, nodes } = context;
  if (owner.hasLeft) throw ownerHasLeft(request.key);
  owner.ticket ||= request.ticket || context.nextTicket();
  const tokens = request.tokens + SPARE_TOKENS;
  const asked = owner.nodes.map((node) => askNode(owner, node, { ...request, ticket: owner.ticket, tokens }));
  const wasHeld = owner.leases.isHeld();
  const outcomes = await gather(asked, (so) => {
    if (haveAnswered(context, so)) return true;
    // A holder waits for all nodes, because only together do they decide whether its grant is still the same.
    if (wasHeld) return false;
    const replies = answersOf(so);
    const granted = count(replies, 'granted');
    const isHopeless = replies.length - granted > nodes.length - majority;
    return granted >= majority || (isHopeless && holderOf(replies, majority) !== undefined);
  });
  if (owner.hasLeft) throw ownerHasLeft(request.key);
  return outcomes;
}

/** Asks one node, whose reply may come after the attempt that asked for it. */
export async function askNode(
  owner: QuorumOwner,
  node: NodeOwner,
  request: AcquireRequest,
): Promise<AcquireReply> {
  const reply = await node.acquire(request);
  settleLeases(owner);
  return reply;
}

/**
 * Keeps the present grant if a majority has leases of it, also from earlier attempts. Otherwise the owner holds under a token
 * that a majority has reserved.
 */
async function hold(
  owner: QuorumOwner,
  granted: readonly NodeOwner[],
  request: AcquireRequest,
): Promise<Grant> {
  const { leases, ticket, context } = owner;
  const { key, tokens } = request;
  const token = leases.nextToken(granted);
  const validUntil = leases.validUntil(granted);
  if (!leases.isConfirmedBy(granted) && !leases.hold(granted, token, tokens)) {
    // The nodes' counters are further apart than the spare tokens, so the nodes that are behind reserve up to the largest token.
    const asked = granted.map((node) => {
      const further = token - (node.lease?.token ?? token);
      return node.acquire({ ...request, ticket, tokens: tokens + further });
    });
    await gather(asked, (so) => answersOf(so).length >= context.majority);
    if (owner.hasLeft) throw ownerHasLeft(key);
    if (!leases.hold(granted, token, tokens)) {
      inBackground(releaseAll(owner, request), () => undefined);
      // The second round came too late for the leases of the first. The caller learns that its lease is too short.
      if (validUntil <= context.clock.now()) {
        return { kind: 'granted', token, lastToken: token, validUntil, waiting: 0, confirmed: true };
      }
      throw tokensTooFarApart(key);
    }
  }
  return leases.grant();
}
