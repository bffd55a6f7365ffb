import type { LockSnapshot } from '../../port/lock-store.js';
import { ownerAt } from './quorum.names.js';
import { reachedBy } from './quorum.tally.js';

/**
 * What nodes together know of a key. It is held by those whom a majority names; who has fewer votes still waits for it.
 *
 * Which token was given last only the holders know: the nodes have reserved more.
 *
 * @param told by each node that answered, at least a majority
 */
export function commonSnapshot(
  key: string,
  told: readonly (LockSnapshot | null)[],
  majority: number,
): LockSnapshot | null {
  const snapshots = told.filter((snapshot) => snapshot !== null);
  const votesFor = (owner: string): LockSnapshot[] =>
    snapshots.filter((snapshot) => snapshot.holders.map(ownerAt).includes(owner));
  // The longest line is the most complete one; who has a vote is missing from the line of its node.
  const lines = snapshots
    .toSorted((a, b) => b.pending.length - a.pending.length)
    .map(({ pending }) => pending);
  const ids = [...lines.flat(), ...snapshots.flatMap((snapshot) => snapshot.holders)];
  const owners = [...new Set(ids.map(ownerAt))];
  if (owners.length === 0) return null;
  const holders = owners.filter((owner) => votesFor(owner).length >= majority);
  const pending = owners.filter((owner) => !holders.includes(owner));
  const leases = holders.map((owner) => votesFor(owner).map(({ remainingMs }) => remainingMs));
  return {
    key,
    mode: modeOf(holders.slice(0, 1).flatMap(votesFor)),
    holders,
    remainingMs: holders.length === 0 ? 0 : Math.min(...leases.map((lease) => reachedBy(majority, lease))),
    pending,
    fencingToken: undefined,
  };
}

/** Who has stepped down at a majority may hold alone still at a node that has not heard of it. */
function modeOf(votes: readonly LockSnapshot[]): LockSnapshot['mode'] {
  return votes.find(({ mode }) => mode === 'shared')?.mode ?? votes[0]?.mode;
}
