import type { AcquireReply, Busy, ReleaseReply, Queued } from '../../port/lock-store.js';
import { recheckAfter } from '../../port/recheck-interval.js';
import type { Identity } from './quorum.ballot.js';
import { ownerAt } from './quorum.names.js';

/** What nodes that refused say together: free again as soon as enough of them are, whatever the others do. */
export function busyReply(replies: readonly AcquireReply[], majority: number): Busy {
  const refusals = replies.filter((reply) => reply.kind !== 'granted');
  const holder = refusals.find((reply) => reply.holder !== undefined)?.holder;
  const remaining = refusals.map((reply) => reply.remainingMs).toSorted((a, b) => a - b);
  const needed = majority - (replies.length - refusals.length);
  const remainingMs = remaining[needed - 1] ?? 0;
  return { kind: 'busy', holder: holder && ownerAt(holder), remainingMs };
}

export function queuedReply(replies: readonly AcquireReply[], ticket: number, majority: number): Queued {
  const { holder, remainingMs } = busyReply(replies, majority);
  const looks = replies.flatMap((reply) => (reply.kind === 'queued' ? [reply.recheckAfterMs] : []));
  return {
    kind: 'queued',
    ticket,
    holder,
    remainingMs,
    recheckAfterMs: Math.min(recheckAfter(remainingMs), ...looks),
  };
}

/** @param replies of a majority at least */
export function releaseReply(
  replies: readonly ReleaseReply[],
  nodes: number,
  majority: number,
): ReleaseReply {
  const count = (wanted: ReleaseReply): number => replies.filter((reply) => reply === wanted).length;
  if (count('released') >= majority) return 'released';
  return count('not held') > nodes - majority ? 'not held' : 'unknown';
}

/** The part of a command that says which lock it is about, and how it is held. */
export function identityOf({ key, claim, leaseMs }: Identity): Identity {
  return { key, claim, leaseMs };
}
