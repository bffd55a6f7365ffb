import { minOf } from '../common/collections.js';
import type {
  Force,
  ForceReply,
  KeyPage,
  ListRequest,
  LockSnapshot,
  LockStore,
  ReleaseReply,
  ReleaseRequest,
  TakeoverNotice,
} from '../port/lock-store.js';
import { LockConfigurationError, LockStoreError } from '../port/lock.errors.js';
import { snapshotsOf, storeThatCan } from '../port/capabilities.js';
import {
  answersOf,
  gather,
  haveAnswered,
  noMajorityError,
  type Outcomes,
  type QuorumContext,
  type QuorumNode,
  reachedBy,
} from './context.js';
import { ownerOf, type QuorumOwner } from './node-owner.js';

/**
 * Releases at all nodes. Resolves as soon as it is certain that no majority of the nodes still has this owner. The stores of nodes that
 * are down go on repeating the release.
 *
 * @throws LockStoreError when fewer than a majority of the nodes have answered until the lease is over
 */
export async function releaseAtNodes(owner: QuorumOwner, request: ReleaseRequest): Promise<ReleaseReply> {
  const { nodes, majority } = owner.context;
  owner.leases.onReleased(request.used);
  owner.leave();
  const outcomes = await owner.releaseAll(request, majority);
  const replies = answersOf(outcomes);
  if (replies.length < majority) throw noMajorityError(owner.context, outcomes, request.key);
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
    // Read the ids of the holders' attempts, and take the lock from these ids only. No id is used twice, so an owner that gets the lock
    // after the reading keeps it.
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

/** Reads the ids of the attempts by which these owners hold the key at this node. */
async function attemptsAt(store: LockStore, key: string, owners: readonly string[]): Promise<string[]> {
  const named = new Set(owners);
  const snapshot = await store.inspect(key);
  return snapshot?.holders.filter((attempt) => named.has(ownerOf(attempt))) ?? [];
}

/**
 * Joins one page of each node. A key may be on several pages, because each node has an order of its own.
 *
 * A majority of the nodes must be listed to the end, so that each key that a majority names is on a page of one of them.
 *
 * @throws LockStoreError when fewer than a majority of the nodes have answered for this page and each page before
 */
export async function list(context: QuorumContext, { prefix, limit, cursor }: ListRequest): Promise<KeyPage> {
  const places = placesIn(cursor, context.nodes.length);
  const request = { prefix, limit: Math.ceil(limit / context.nodes.length) };
  const outcomes = await outcomesOf(context, undefined, (node, i) => pageAt(node, places[i], request));
  const pages = answersOf(outcomes);
  const keys = new Set(
    pages.flatMap(({ entries, unreadable }) => [...entries, ...unreadable].map(({ key }) => key)),
  );
  const found = await snapshotsOf([...keys].sort(), (key) => inspect(context, key));
  const next = outcomes.map((outcome): Place =>
    outcome?.status === 'fulfilled' ? (outcome.value.cursor ?? null) : false,
  );
  const hasNext = next.some((place) => typeof place === 'string');
  return {
    ...found,
    ...(hasNext && { cursor: JSON.stringify(next) }),
  };
}

/** The cursor of the next page of a node; `undefined`: its first page; `null`: it has no further one; `false`: it did not answer. */
type Place = string | undefined | null | false;

/**
 * Gets one page from a node. A node that has no further page counts as answered, and one that did not answer for an earlier page as
 * failed.
 */
async function pageAt(
  node: QuorumNode,
  place: Place,
  request: Omit<ListRequest, 'cursor'>,
): Promise<KeyPage> {
  if (place === null) return { entries: [], unreadable: [] };
  if (place === false)
    throw new LockStoreError('it did not answer for a page before', undefined, 'unreachable');
  const cursor = place === undefined ? {} : { cursor: place };
  return node.watch(storeThatCan(node.store, 'list').list({ ...request, ...cursor }));
}

function placesIn(cursor: string | undefined, nodes: number): readonly Place[] {
  if (cursor === undefined) return [];
  const isPlace = (place: unknown): boolean => typeof place === 'string' || place === null || place === false;
  try {
    const places: unknown = JSON.parse(cursor);
    if (Array.isArray(places) && places.length === nodes && places.every(isPlace)) return places as Place[];
  } catch {
    // No JSON, so it is not a cursor of a quorum. The error follows.
  }
  throw new LockConfigurationError(
    `cursor must be the cursor of a page of this quorum of ${nodes} nodes. Begin again without one.`,
  );
}

/**
 * Merges what the nodes know of a key. An owner that a majority names holds it. An owner with fewer node leases still waits.
 *
 * The snapshot has no fencing token, because nodes have reserved more than the holder was given.
 */
export async function inspect(context: QuorumContext, key: string): Promise<LockSnapshot | null> {
  const { majority } = context;
  const replies = await askNodes(context, key, (store) => store.inspect(key));
  const snapshots = replies.filter((snapshot) => snapshot !== null);
  const heldBy = (owner: string): LockSnapshot[] =>
    snapshots.filter(({ holders }) => holders.map(ownerOf).includes(owner));
  // An owner with a node lease is not in the queue of that node, so the longest queue is the most complete one. Take its order.
  const byQueue = snapshots.toSorted((a, b) => b.pending.length - a.pending.length);
  const ids = [...byQueue.flatMap(({ pending }) => pending), ...byQueue.flatMap(({ holders }) => holders)];
  const owners = [...new Set(ids.map(ownerOf))];
  if (owners.length === 0) return null;
  const holders = owners.filter((owner) => heldBy(owner).length >= majority);
  const remaining = holders.map((owner) =>
    reachedBy(
      majority,
      heldBy(owner).map(({ remainingMs }) => remainingMs),
    ),
  );
  return {
    key,
    mode: modeOf(holders.slice(0, 1).flatMap(heldBy)),
    holders,
    remainingMs: holders.length === 0 ? 0 : minOf(remaining),
    pending: owners.filter((owner) => !holders.includes(owner)),
    fencingToken: undefined,
  };
}

/** `shared` if any node says so, because a node that a downgrade has not reached yet still names the mode from before. */
function modeOf(snapshots: readonly LockSnapshot[]): LockSnapshot['mode'] {
  return snapshots.find(({ mode }) => mode === 'shared')?.mode ?? snapshots[0]?.mode;
}

/**
 * Sends a command about a key to all nodes and collects the answers.
 *
 * @throws LockStoreError when fewer than a majority answer
 */
async function askNodes<T>(
  context: QuorumContext,
  key: string,
  command: (store: LockStore) => Promise<T>,
): Promise<T[]> {
  return answersOf(await outcomesOf(context, key, (node) => node.watch(command(node.store))));
}

/**
 * Asks all nodes, and waits for those that are not known to be down.
 *
 * @throws LockStoreError when fewer than a majority answer
 */
async function outcomesOf<T>(
  context: QuorumContext,
  key: string | undefined,
  ask: (node: QuorumNode, i: number) => Promise<T>,
): Promise<Outcomes<T>> {
  const { nodes, majority } = context;
  const outcomes = await gather(nodes.map(ask), (collected) => haveAnswered(context, collected));
  if (answersOf(outcomes).length < majority) throw noMajorityError(context, outcomes, key);
  return outcomes;
}
