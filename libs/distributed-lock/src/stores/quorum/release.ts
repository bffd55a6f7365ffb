import { storeThatCan } from '../../port/capabilities.js';
import { randomMs } from '../../time/chance.js';
import type {
  Force,
  ForceReply,
  LockStore,
  ReleaseReply,
  ReleaseRequest,
  TakeoverNotice,
} from '../../port/lock-store.js';
import { answersOf, gather, type Outcomes } from './majority.js';
import type { NodeRelease, NodeOwner } from './node-owner.js';
import { ownerOf } from './owner-ids.js';
import { askNodes, haveAnswered, type QuorumContext } from './quorum.context.js';
import { noMajority } from './quorum.errors.js';
import type { QuorumOwner } from './quorum.owner.js';

/**
 * How long an owner without a majority keeps its node leases, and how long it pauses before it asks again: at random, so that one
 * of several owners that split the nodes wins.
 */
export const SPLIT_MS = { least: 10, spread: 30 };

/**
 * Resolves once a majority is certain to be without the owner. The stores of nodes that are down go on repeating the release.
 *
 * @throws LockStoreError when a majority cannot be had until the lease is over
 */
export async function releaseAtNodes(owner: QuorumOwner, request: ReleaseRequest): Promise<ReleaseReply> {
  const { nodes, majority } = owner.context;
  owner.leases.onReleased(request.used);
  owner.leave();
  const outcomes = await releaseAll(owner, request, majority);
  const replies = answersOf(outcomes);
  if (replies.length < majority) throw noMajority(nodes, outcomes, request.key);
  const countOf = (wanted: ReleaseReply): number => replies.filter((reply) => reply === wanted).length;
  if (countOf('released') >= majority) return 'released';
  return countOf('not held') > nodes.length - majority ? 'not held' : 'unknown';
}

/** Takes the lock at all nodes from its holders, or from those that `force` names. */
export async function forceRelease(
  context: QuorumContext,
  key: string,
  { owners, ...force }: Force = {},
): Promise<ForceReply> {
  const replies = await askNodes(context, key, async (node) => {
    const store = storeThatCan(node, 'force');
    if (!owners) return store.forceRelease(key, force);
    // An attempt is never used again, so a node frees nobody who got the lock after this reading.
    return store.forceRelease(key, { ...force, owners: await attemptsAt(store, key, owners) });
  });
  const isOfMajority = (wanted: ForceReply): boolean =>
    replies.filter((reply) => reply === wanted).length >= context.majority;
  if (isOfMajority('released')) return 'released';
  return isOfMajority('held by another') ? 'held by another' : 'not held';
}

/** Asks each node to notify the holder, because one notification is enough and any of them may be lost. */
export async function announceTakeover(
  context: QuorumContext,
  takeover: TakeoverNotice,
): Promise<'announced' | 'nobody to tell'> {
  const { key, owner } = takeover;
  const replies = await askNodes(context, key, async (node) => {
    const store = storeThatCan(node, 'takeover');
    const [attempt] = await attemptsAt(store, key, [owner]);
    return attempt === undefined ? 'nobody to tell' : store.announceTakeover({ ...takeover, owner: attempt });
  });
  return replies.includes('announced') ? 'announced' : 'nobody to tell';
}

/** @returns the ids under which the node knows these holders */
async function attemptsAt(store: LockStore, key: string, owners: readonly string[]): Promise<string[]> {
  const named = new Set(owners);
  const snapshot = await store.inspect(key);
  return snapshot?.holders.filter((attempt) => named.has(ownerOf(attempt))) ?? [];
}

/** @param needed how many answers are enough once the nodes have had their time */
export function releaseAll(
  owner: QuorumOwner,
  request: NodeRelease,
  needed = 0,
): Promise<Outcomes<ReleaseReply>> {
  const { context } = owner;
  const asked = owner.nodes.map((node) => releaseNode(owner, node, request));
  const timeout = { clock: context.clock, ms: context.nodeTimeoutMs };
  return gather(
    asked,
    (so, isLate) => haveAnswered(context, so) || (isLate && answersOf(so).length >= needed),
    timeout,
  );
}

/** The node's store repeats the release, also after the caller has stopped waiting for it. */
function releaseNode(
  { leases, context }: QuorumOwner,
  node: NodeOwner,
  request: NodeRelease,
): Promise<ReleaseReply> {
  const released = node.release(request, leases.lastUsed);
  context.inBackground(released);
  return released;
}

/** Gives back node leases short of a majority after a moment, as they are in the way of others. The owner keeps its ticket. */
export function giveBackSoon(owner: QuorumOwner): void {
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
  for (const node of granted) context.inBackground(releaseNode(owner, node, request));
  context.notify({ kind: 'recheck', owner: name, afterMs: randomMs(context.chance, SPLIT_MS) });
}
