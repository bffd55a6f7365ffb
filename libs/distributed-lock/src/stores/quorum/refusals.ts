import type { AcquireReply, Busy, Queued } from '../../port/lock-store.js';
import { recheckAfter } from '../../port/recheck-interval.js';
import { ownerOf } from './owner-ids.js';
import { minOf } from '../../collections/extremes.js';

/** The holder that a majority of nodes names. With fewer, owners have split the nodes. */
export function holderOf(replies: readonly AcquireReply[], majority: number): string | undefined {
  const named = holdersIn(replies);
  return named.find((owner) => named.filter((other) => other === owner).length >= majority);
}

/** The key is free again as soon as enough of the refusing nodes are free for a majority. */
export function busyReply(replies: readonly AcquireReply[], majority: number): Busy {
  const refusals = replies.filter((reply) => reply.kind !== 'granted');
  const remaining = refusals.map((reply) => reply.remainingMs).toSorted((a, b) => a - b);
  const needed = majority - (replies.length - refusals.length);
  const holder = holderOf(replies, majority) ?? holdersIn(replies)[0];
  return { kind: 'busy', holder, remainingMs: remaining[needed - 1] ?? 0, ...waitingIn(refusals, majority) };
}

export function queuedReply(replies: readonly AcquireReply[], ticket: number, majority: number): Queued {
  const { holder, remainingMs, waiting } = busyReply(replies, majority);
  const rechecks = replies.flatMap((reply) => (reply.kind === 'queued' ? [reply.recheckAfterMs] : []));
  const recheckAfterMs = Math.min(recheckAfter(remainingMs), minOf(rechecks));
  const counted = waiting !== undefined && { waiting };
  return { kind: 'queued', ticket, holder, remainingMs, recheckAfterMs, ...counted };
}

/** How many others wait at each node of a majority, at least. */
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
