import type { LockSnapshot } from '../../port/lock-store.js';
import { reachedBy } from './majority.js';
import { ownerOf } from './owner-ids.js';
import { askNodes, type QuorumContext } from './quorum.context.js';
import { minOf } from '../../collections/extremes.js';

/**
 * Merges what the nodes know of a key. An owner that a majority names holds it. An owner with fewer node leases still waits.
 *
 * The snapshot has no fencing token, because nodes have reserved more than the holder was given.
 */
export async function inspect(context: QuorumContext, key: string): Promise<LockSnapshot | null> {
  const { majority } = context;
  const told = await askNodes(context, key, (store) => store.inspect(key));
  const snapshots = told.filter((snapshot) => snapshot !== null);
  const heldBy = (owner: string): LockSnapshot[] =>
    snapshots.filter(({ holders }) => holders.map(ownerOf).includes(owner));
  // The longest queue is the most complete one. An owner with a node lease is missing from the queue of that node.
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

/** A node that the renewal of a downgrade has not reached still names the mode from before. */
function modeOf(snapshots: readonly LockSnapshot[]): LockSnapshot['mode'] {
  return snapshots.find(({ mode }) => mode === 'shared')?.mode ?? snapshots[0]?.mode;
}
