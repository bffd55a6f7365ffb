import { randomMs } from '../common/clock.js';
import { minOf } from '../common/collections.js';
import { ignoreFailure, inBackground } from '../common/promises.js';
import type {
  AcquireReply,
  AcquireRequest,
  Busy,
  Grant,
  Notification,
  Queued,
  Renewal,
  RenewalReply,
} from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { recheckAfter } from '../port/timing.js';
import {
  answersOf,
  count,
  gather,
  haveAnswered,
  noMajorityError,
  type Outcomes,
  ownerHasLeftError,
  type QuorumNode,
} from './context.js';
import { type NodeOwner, ownerOf, type QuorumOwner } from './node-owner.js';

/**
 * How many fencing tokens each node reserves beyond those that the owner requests. A token is a time of the node in µs, so with 10 000
 * spare tokens, nodes whose counters differ by up to 10 ms need no second round, and a node lease that comes that much later counts for
 * the grant at once.
 *
 * The number does not adapt to the difference between the counters, because the tokens that one grant reserves set them apart for the
 * next one. It is no larger, because a grant that is never given back moves the tokens ahead of the clock by as much: with ten times as
 * many, faults moved them 12 s ahead.
 */
const SPARE_TOKENS = 10_000;

/**
 * How long an owner without a majority keeps its node leases, and how long it pauses before it asks again: at random, so that one
 * of several owners that split the nodes wins.
 */
const SPLIT_MS = { least: 10, spread: 30 };

/**
 * A newcomer (a node lease that comes while the lock is held) counts only after a renewal, which follows after this many ms. Most locks
 * are released before that, and so cost no renewal. Until the newcomer counts, the lock does not survive the failure of a node of its
 * first majority.
 */
const CONFIRM_MS = 100;

/** How soon to ask again after an attempt that no majority answered, in ms. */
const FAILED_RECHECK_MS = 50;

/**
 * Acquires as Redlock does, except that waiters stand in the queues of the nodes instead of polling:
 *
 * 1. The owner asks all nodes at once.
 * 2. If a majority grants it a node lease, it holds the lock. Each lease is valid from the moment of asking, less the clock drift.
 * 3. Otherwise an owner that waits stays in the nodes' queues. It has the same ticket at all nodes, so all queues have the same order,
 *    and a release grants the same owner at every node. The first node that notifies it of a grant starts the next attempt.
 * 4. An owner without a majority gives back its node leases if it does not wait, or if too many nodes refuse it for `maxWaiting`. If
 *    several owners have split the nodes, so that none has a majority, an owner that does not wait tries again after a random pause.
 *
 * @throws LockStoreError when fewer than a majority answer; then the owner has left all nodes
 */
export function acquire(owner: QuorumOwner, request: AcquireRequest): Promise<AcquireReply> {
  owner.request = request;
  const { leases } = owner;
  const wasHeld = leases.isHeld();
  // A notification may have started an attempt that runs before this one. If that acquired the lock, return its grant and do not ask
  // again: the caller may have downgraded by now, so the nodes would refuse a request for the exclusive lock, and the owner would lose
  // its leases.
  return inTurn(owner, async () =>
    leases.isHeld() && !wasHeld ? leases.grant() : attemptUntilClear(owner, request),
  );
}

/** Starts another attempt at all nodes. Called when one node has granted: the holder has released, so the other nodes may grant as well. */
function attemptAgain(owner: QuorumOwner): void {
  const { context, name } = owner;
  if (owner.isAttemptDue) return;
  owner.isAttemptDue = true;
  const attempted = inTurn(owner, async () => {
    owner.isAttemptDue = false;
    const { request, leases } = owner;
    if (!request || owner.hasLeft || leases.isHeld()) return;
    // Ask without `maxWaiting`: this owner waits already, so even a node that refused it because of `maxWaiting` has to queue it now.
    const { maxWaiting: _, ...unlimited } = request;
    const reply = await attemptUntilClear(owner, { ...unlimited, mayWait: true });
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

/**
 * Called after each attempt and each late reply of a node. Does nothing while another attempt runs or is due. An owner that holds the lock
 * counts its newcomers from now on, or after a renewal. An owner that does not hold it gives back its node leases, because they block
 * other owners.
 */
function settleLeases(owner: QuorumOwner): void {
  const { attempts, leases, nodes } = owner;
  if (!attempts.isIdle) return;
  if (leases.isHeld()) {
    leases.join();
    confirmSoon(owner);
  } else if (nodes.some(({ lease }) => lease)) giveBackSoon(owner);
}

/**
 * After a short pause, gives back the node leases of an owner that has less than a majority, because they block other owners. The owner
 * keeps its ticket.
 *
 * If owners have split the nodes, it asks again after another pause. If a majority names one holder, it waits for the next recheck: the
 * node that it gave back is free until the holder's next renewal invites that node, and would grant it again and again.
 */
function giveBackSoon(owner: QuorumOwner): void {
  if (owner.cancelGivingBack || owner.hasLeft) return;
  const { clock, chance } = owner.context;
  owner.cancelGivingBack = clock.after(randomMs(chance, SPLIT_MS), () => {
    owner.cancelGivingBack = undefined;
    if (owner.attempts.isIdle) giveBack(owner);
    else giveBackSoon(owner);
  });
}

function giveBack(owner: QuorumOwner): void {
  const { nodes, request, leases, context, name } = owner;
  const granted = nodes.filter(({ lease }) => lease);
  if (!request || granted.length === 0 || leases.isHeld()) return;
  for (const node of granted) context.inBackground(owner.releaseNode(node, request));
  if (!owner.isBehindHolder)
    context.notify({ kind: 'recheck', owner: name, afterMs: randomMs(context.chance, SPLIT_MS) });
}

async function attemptUntilClear(owner: QuorumOwner, request: AcquireRequest): Promise<AcquireReply> {
  const { clock, chance, nodeTimeoutMs, majority, nodes } = owner.context;
  const startedAt = clock.now();
  for (;;) {
    const sentAt = clock.now();
    const outcomes = await attempt(owner, request);
    const now = clock.now();
    // Node leases of earlier attempts count as well, so that a holder keeps its lock while some nodes do not answer.
    const valid = owner.nodes.filter(({ lease }) => lease && lease.validUntil > now);
    const mayRetry = !request.mayWait && now - startedAt < nodeTimeoutMs;
    // In the last attempt, also count node leases that had ended before the reply came. The caller then gets a grant that has expired,
    // and so learns that its lease is too short.
    const late = mayRetry ? [] : grantedBy(owner, outcomes);
    const granted = valid.length >= majority ? valid : late;
    if (granted.length >= majority) {
      return hold(owner, granted, request);
    }
    owner.leases.drop();
    const replies = answersOf(outcomes);
    // With permits, several may have split the nodes beside the one that a majority names.
    owner.isBehindHolder = request.claim.kind !== 'permits' && holderOf(replies, majority) !== undefined;
    const mayWait = request.mayWait && count(replies, 'busy') <= nodes.length - majority;
    if (mayWait && replies.length >= majority) return queuedReply(replies, owner.ticket, majority);
    const released = owner.releaseAll(request);
    if (replies.length < majority) throw noMajorityError(owner.context, outcomes, request.key);
    // Some nodes have granted, but no majority names one holder. Either several owners have split the nodes, or this owner does not wait
    // and the grants to it arrived too late to be valid.
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

/** Asks all nodes at once. Waits until the replies that are there decide whether the owner has a majority. */
async function attempt(owner: QuorumOwner, request: AcquireRequest): Promise<Outcomes<AcquireReply>> {
  const { context } = owner;
  const { majority, nodes } = context;
  if (owner.hasLeft) throw ownerHasLeftError(request.key);
  owner.ticket ||= request.ticket || context.nextTicket();
  const tokens = request.tokens + SPARE_TOKENS;
  const asked = owner.nodes.map((node) => askNode(owner, node, { ...request, ticket: owner.ticket, tokens }));
  const wasHeld = owner.leases.isHeld();
  const outcomes = await gather(asked, (collected) => {
    if (haveAnswered(context, collected)) return true;
    // An owner that holds already waits for all nodes, because only all replies together show whether its grant is still the same.
    if (wasHeld) return false;
    const replies = answersOf(collected);
    const granted = count(replies, 'granted');
    const isHopeless = replies.length - granted > nodes.length - majority;
    return granted >= majority || (isHopeless && holderOf(replies, majority) !== undefined);
  });
  if (owner.hasLeft) throw ownerHasLeftError(request.key);
  return outcomes;
}

/** Asks one node. Its reply may come after the attempt has ended; a node lease in it is then counted or given back. */
async function askNode(owner: QuorumOwner, node: NodeOwner, request: AcquireRequest): Promise<AcquireReply> {
  const reply = await node.acquire(request);
  settleLeases(owner);
  return reply;
}

/**
 * Returns the present grant if a majority of the node leases belongs to it, those of earlier attempts included. Otherwise makes a new
 * grant, with a token that a majority of the nodes has reserved.
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
    // The token counters of the nodes differ by more than the spare tokens. Ask once more, so that the nodes that are behind reserve up
    // to the largest token.
    const asked = granted.map((node) => {
      const further = token - (node.lease?.token ?? token);
      return node.acquire({ ...request, ticket, tokens: tokens + further });
    });
    await gather(asked, (collected) => answersOf(collected).length >= context.majority);
    if (owner.hasLeft) throw ownerHasLeftError(key);
    if (!leases.hold(granted, token, tokens)) {
      ignoreFailure(owner.releaseAll(request));
      // The second round took so long that the node leases of the first have ended. Return a grant that has expired, so that the caller
      // learns that its lease is too short.
      if (validUntil <= context.clock.now()) {
        return { kind: 'granted', token, lastToken: token, validUntil, waiting: 0, confirmed: true };
      }
      throw new LockStoreError('The nodes count too differently for a common fencing token', key, 'unready');
    }
  }
  return leases.grant();
}

/** The holder that a majority of the nodes names; `undefined` if there is none, because several owners have split the nodes. */
function holderOf(replies: readonly AcquireReply[], majority: number): string | undefined {
  const named = holdersIn(replies);
  return named.find((owner) => named.filter((other) => other === owner).length >= majority);
}

/**
 * Makes the reply that the key is busy. `remainingMs` is the time until so many of the refusing nodes are free that this owner could get
 * a majority.
 */
function busyReply(replies: readonly AcquireReply[], majority: number): Busy {
  const refusals = replies.filter((reply) => reply.kind !== 'granted');
  const remaining = refusals.map((reply) => reply.remainingMs).toSorted((a, b) => a - b);
  const needed = majority - (replies.length - refusals.length);
  const holder = holderOf(replies, majority) ?? holdersIn(replies)[0];
  return { kind: 'busy', holder, remainingMs: remaining[needed - 1] ?? 0, ...waitingIn(refusals, majority) };
}

function queuedReply(replies: readonly AcquireReply[], ticket: number, majority: number): Queued {
  const { holder, remainingMs, waiting } = busyReply(replies, majority);
  const rechecks = replies.flatMap((reply) => (reply.kind === 'queued' ? [reply.recheckAfterMs] : []));
  const recheckAfterMs = Math.min(recheckAfter(remainingMs), minOf(rechecks));
  const counted = waiting !== undefined && { waiting };
  return { kind: 'queued', ticket, holder, remainingMs, recheckAfterMs, ...counted };
}

/** How many others wait: the largest number such that each node of some majority reports at least as many. */
function waitingIn(refusals: readonly (Busy | Queued)[], majority: number): Pick<Busy, 'waiting'> {
  const counts = refusals.flatMap(({ waiting }) => (waiting === undefined ? [] : [waiting]));
  if (counts.length === 0) return {};
  return { waiting: counts.toSorted((a, b) => b - a)[majority - 1] ?? 0 };
}

function holdersIn(replies: readonly AcquireReply[]): string[] {
  return replies.flatMap((reply) =>
    reply.kind === 'granted' || reply.holder === undefined ? [] : [ownerOf(reply.holder)],
  );
}

/**
 * Renews all node leases. If a majority of those that count is renewed, the newcomers count from now on, too.
 *
 * @returns one outcome for each node, `undefined` for those whose lease did not count
 */
async function renewNodes(owner: QuorumOwner, renewal: Renewal): Promise<Outcomes<RenewalReply>> {
  const { leases, context } = owner;
  const { majority } = context;
  const asked = leases.counted();
  const newcomers = leases.newcomers();
  const renewed = asked.map((node) => node.renew(renewal));
  for (const node of newcomers.keys()) context.inBackground(node.renew(renewal));
  owner.renewalsUnderWay += 1;
  const outcomes = await gather(renewed, (collected) => {
    const replies = answersOf(collected);
    return count(replies, 'renewed') >= majority || count(replies, 'lost') > asked.length - majority;
  });
  owner.renewalsUnderWay -= 1;
  const isConfirmed = count(answersOf(outcomes), 'renewed') >= majority;
  if (isConfirmed && leases.isHeld(renewal.token)) leases.confirm(newcomers);
  return owner.nodes.map((node) => outcomes[asked.indexOf(node)]);
}

/**
 * Schedules a renewal in `CONFIRM_MS` if there are newcomers, so that they count: the next renewal of the watchdog may be 10 s away. This
 * one renews the node leases to their usual length, because a shorter length could undo a renewal that is in flight. If nobody renews
 * them after that, they may block the key for `CONFIRM_MS` more.
 *
 * If another renewal is in flight, this one waits for its outcome. Otherwise the reply to the earlier renewal would no longer prolong the
 * node leases, and an `extend` would resolve without having extended the lock.
 */
function confirmSoon(owner: QuorumOwner): void {
  const { context, leases } = owner;
  if (owner.cancelConfirming || owner.hasLeft || leases.newcomers().size === 0) return;
  owner.cancelConfirming = context.clock.after(CONFIRM_MS, () => {
    owner.cancelConfirming = undefined;
    if (owner.renewalsUnderWay > 0) return confirmSoon(owner);
    if (owner.request && leases.isHeld() && leases.newcomers().size > 0) {
      const { key, claim, leaseMs } = owner.request;
      const { token, lastToken } = leases.grant();
      context.inBackground(renewNodes(owner, { key, claim, leaseMs, owner: owner.name, token, lastToken }));
    }
  });
}

/** Renews if a majority of the nodes renews. The lock is lost when no majority of the node leases is left. */
export async function renew(owner: QuorumOwner, renewal: Renewal): Promise<RenewalReply> {
  const { leases, request, context } = owner;
  const { key, claim, leaseMs, token } = renewal;
  if (!request || !leases.isHeld(token)) return { kind: 'lost' };
  owner.request = { ...request, claim, leaseMs };
  const outcomes = await renewNodes(owner, renewal);
  if (!leases.isHeld(token)) {
    // If the owner holds under another token, that is a newer grant, which this renewal does not concern. So leave it alone.
    if (!leases.isHeld()) leases.drop();
    return { kind: 'lost' };
  }
  if (count(answersOf(outcomes), 'renewed') < context.majority) {
    return { kind: 'unknown', error: noMajorityError(context, outcomes, key) };
  }
  for (const node of owner.nodes) if (!node.lease) invite(owner, node);
  const { validUntil, waiting } = leases.grant();
  return { kind: 'renewed', validUntil, waiting };
}

/** Asks a node without a node lease of this owner for one while the lock is held, so that the lock survives the failure of another node. */
function invite(owner: QuorumOwner, node: NodeOwner): void {
  const request: AcquireRequest = { ...(owner.request as AcquireRequest), mayWait: false, tokens: 1 };
  askNode(owner, node, request).catch(() => undefined);
}

/** Acts on a notification of one node for an attempt of this owner. A notification for an earlier attempt is ignored. */
export function onNotification(
  owner: QuorumOwner,
  from: QuorumNode,
  notification: Notification & { readonly owner: string },
): void {
  const { leases, context, name } = owner;
  const node = owner.nodes.find((each) => each.node === from);
  if (!node?.isNamed(notification.owner) || owner.hasLeft) return;
  switch (notification.kind) {
    case 'granted':
      if (leases.isHeld()) invite(owner, node);
      else attemptAgain(owner);
      return;
    case 'contended':
    case 'takeover':
      if (leases.isHeld()) context.notify({ ...notification, owner: name });
      return;
    case 'lost': {
      const wasHeld = leases.isHeld();
      node.lease = undefined;
      if (!wasHeld || leases.isHeld()) return;
      leases.drop();
      return context.notify({ ...notification, owner: name });
    }
    case 'recheck':
      return context.notify({ ...notification, owner: name });
    default:
      notification satisfies never;
  }
}
